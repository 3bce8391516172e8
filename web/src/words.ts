/** Every text that the page shows. One place, ready for translation. */
export const words = {
  name: "Dragoman",
} as const;
