// Builds the conversation with a fake app, for tests in a browser: node tests/alone.mjs FOLDER
import { writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = join(dirname(fileURLToPath(import.meta.url)), "..");
const out = process.argv[2];
await build({
  entryPoints: { talk: join(web, "src/dev/talk.tsx"), style: join(web, "src/dev/dev.css") },
  outdir: out,
  chunkNames: "part.[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  logLevel: "warning",
});
writeFileSync(
  join(out, "index.html"),
  `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conversation</title><link rel="stylesheet" href="/style.css"><script type="module" src="/talk.js"></script></head>
<body><div id="app"></div></body></html>`,
);
writeFileSync(join(out, "empty.html"), `<!doctype html><html lang="en"><head><title>Empty</title></head><body></body></html>`);
