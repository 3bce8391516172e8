// The official TypeScript SDK as a server of Streamable HTTP and WebSocket. Writes its URL to stdout.
import { createServer } from "node:http";
import { agent, methods, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { WebSocketServer } from "ws";

let sessions = 0;
const app = agent({ name: "ts" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: {},
    agentInfo: { name: "ts", version: "1" },
  }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: `session-${++sessions}` }))
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const [, count, size] = params.prompt[0].text.split(" ").map(Number);
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "x".repeat(size) } };
    for (let i = 0; i < count; i++) {
      await client.notify(methods.client.session.update, { sessionId: params.sessionId, update });
    }
    return { stopReason: "end_turn" };
  });

const server = new AcpServer({ agent: app });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
http.listen(0, "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${http.address().port}/acp\n`));
