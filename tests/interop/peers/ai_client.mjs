// The chat client of the AI SDK, in the version that the first argument names, without a web page around it.
// Reads one JSON object per line from stdin and writes one per line to stdout:
//   {"streams": [texts]}        each text is the answer to one post; gives what the client made of them
//   {"url", "token", "id", "body", "steps": [...]}   a chat with a real server; a step is a prompt or an action
import { createInterface } from 'node:readline';

const version = process.argv[2];
const sdk = await import(`ai${version}`);

class State {
  status = 'ready';
  error = undefined;
  messages = [];
  pushMessage = message => { this.messages = this.messages.concat(message); };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => {
    this.messages = [...this.messages.slice(0, index), structuredClone(message), ...this.messages.slice(index + 1)];
  };
  snapshot = value => structuredClone(value);
}

class Chat extends sdk.AbstractChat {
  constructor(options) {
    const state = new State();
    super({ ...options, state });
    this.own = state;
  }
}

const seen = chat => ({ status: chat.own.status, error: chat.own.error?.message ?? null, messages: chat.own.messages });
const settled = async chat => {
  while (['submitted', 'streaming'].includes(chat.own.status)) await new Promise(done => setTimeout(done, 5));
};
const sendAgain = sdk.lastAssistantMessageIsCompleteWithApprovalResponses;

async function read({ streams }) {
  const rest = [...streams];
  const calls = [];
  const fetch = async () => new Response(rest.shift(), { headers: { 'content-type': 'text/event-stream' } });
  const chat = new Chat({
    id: 'recorded',
    transport: new sdk.DefaultChatTransport({ api: 'http://127.0.0.1/chat', fetch }),
    onToolCall: ({ toolCall }) => { calls.push(toolCall.toolCallId); },
  });
  await chat.sendMessage({ text: 'hello' });
  await settled(chat);
  return { ...seen(chat), calls };
}

async function talk({ url, token, id, body, steps }) {
  const posts = [];
  const fetch = async (address, init) => {
    const answer = await globalThis.fetch(address, init);
    posts.push([init?.method ?? 'GET', answer.status, answer.headers.get('x-vercel-ai-ui-message-stream')]);
    return answer;
  };
  const headers = { Authorization: `Bearer ${token}` };
  const chat = new Chat({
    id,
    transport: new sdk.DefaultChatTransport({ api: url, headers, body, fetch }),
    sendAutomaticallyWhen: sendAgain,
  });
  const shown = [];
  for (const step of steps) {
    if (step.answer !== undefined) {
      const parts = chat.own.messages.at(-1).parts.filter(part => part.state === 'approval-requested');
      const posted = posts.length;
      for (const part of parts) await chat.addToolApprovalResponse({ id: part.approval.id, approved: step.answer });
      while (posts.length === posted) await new Promise(done => setTimeout(done, 5));
    } else if (step.stop !== undefined) {
      const sending = chat.sendMessage({ text: step.stop });
      while (!JSON.stringify(chat.own.messages).includes(step.until)) await new Promise(done => setTimeout(done, 5));
      await chat.stop();
      await sending;
    } else {
      await chat.sendMessage(step);
    }
    await settled(chat);
    shown.push(seen(chat));
  }
  return { shown, posts };
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  console.log(JSON.stringify(await (order.streams ? read(order) : talk(order))));
}
