/** Every text that the page shows. One place, ready for translation. */
export const words = {
  name: "Dragoman",
  thread: {
    conversation: "Conversation",
    code: "Code",
    codeIn: (language: string) => `Code, ${language}`,
    copyCode: "Copy the code",
    copyMessage: "Copy the message",
    copyLink: "Copy a link to this place",
    copied: "Copied.",
    table: "Table",
    picture: "Picture",
    remotePicture: "A picture of another host; it opens in a new tab.",
    changedLines: "Changed lines",
    added: "added",
    removed: "removed",
    showLines: (count: number) => `show ${count.toLocaleString("en")} ${count === 1 ? "line" : "lines"}`,
  },
} as const;
