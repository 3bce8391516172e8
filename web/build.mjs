// Builds the page into the Python package: hashed assets, and the table of what the host serves.
//
//   node build.mjs [--out FOLDER] [--watch]
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const named = process.argv.indexOf("--out");
const out = named > 0 ? process.argv[named + 1] : join(here, "..", "src", "dragoman", "host", "serving", "page");
const TYPES = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  png: "image/png",
  webmanifest: "application/manifest+json",
};

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "assets"), { recursive: true });
const made = await build({
  entryPoints: { main: join(here, "src/main.tsx"), style: join(here, "src/style/main.css") },
  outdir: join(out, "assets"),
  entryNames: "[name].[hash]",
  chunkNames: "part.[hash]",
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});

const files = {};
function add(path, file, cache) {
  const bytes = readFileSync(join(out, file));
  const type = TYPES[file.split(".").at(-1)];
  files[path] = { file, type, sha256: createHash("sha256").update(bytes).digest("hex"), cache };
  return gzipSync(bytes, { level: 9 }).length;
}

const entries = {};
for (const [path, output] of Object.entries(made.metafile.outputs)) {
  if (output.entryPoint) entries[relative(here, output.entryPoint)] = relative(out, path);
}
const script = entries["src/main.tsx"];
const style = entries["src/style/main.css"];
// What the first load needs: the script, all that it imports at once, the style sheet and the page itself.
const first = new Set([style]);
const outputs = Object.fromEntries(Object.entries(made.metafile.outputs).map(([path, found]) => [relative(out, path), found]));
const visit = (file) => {
  if (first.has(file)) return;
  first.add(file);
  for (const found of outputs[file].imports) if (found.kind === "import-statement") visit(relative(out, found.path));
};
visit(script);
// The page has its version in itself, so that it is made of everything but the page as it is written.
const template = readFileSync(join(here, "src/index.html"), "utf8");
const version = createHash("sha256").update(template).update(readdirSync(join(out, "assets")).sort().map((name) => createHash("sha256").update(name).update(readFileSync(join(out, "assets", name))).digest("hex")).join()).digest("hex").slice(0, 12);
const preloads = [...first].filter((file) => file !== style && file !== script);
const page = template
  .replace("%VERSION%", version)
  .replace("%STYLE%", `/${style}`)
  .replace("%SCRIPT%", `/${script}`)
  .replace("%PRELOADS%", preloads.map((file) => `<link rel="modulepreload" href="/${file}">`).join("\n"));
writeFileSync(join(out, "index.html"), page);
let bytes = add("/", "index.html", "no-store");
for (const name of readdirSync(join(out, "assets")).sort()) {
  const size = add(`/assets/${name}`, `assets/${name}`, "immutable");
  if (first.has(`assets/${name}`)) bytes += size;
}
writeFileSync(join(out, "table.json"), `${JSON.stringify({ version, firstLoad: bytes, files }, null, 1)}\n`);
console.log(`the page is in ${relative(process.cwd(), out) || out}: first load ${(bytes / 1000).toFixed(1)} kB with gzip`);
