// Tests of the page's pure renderers: blocks, diffs, colours of output, hidden characters, highlighting.
//
//   node tests/render.mjs
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = join(dirname(fileURLToPath(import.meta.url)), "..", "src", "render");
const names = ["visible", "blocks", "diff", "sgr", "highlight", "pictures", "markdown"];
const made = await build({
  stdin: { contents: names.map((name) => `export * from "./${name}.ts";`).join("\n"), resolveDir: folder },
  bundle: true,
  format: "esm",
  write: false,
});
const page = await import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].contents).toString("base64")}`);
const { cut, Cutter, diffOf, script, sgr, lastLines, visible, plain, highlight, languageOf, sizeOf, dataAddress, markdown } = page;

const texts = (blocks) => blocks.map((block) => [block.kind, block.text]);
const bare = (lines) => lines.map((line) => line.map((run) => run.text).join(""));

test("text is cut at blank lines outside of fences and lists", () => {
  assert.deepEqual(texts(cut("One\ntwo\n\nthree\n\n\n")), [["prose", "One\ntwo"], ["prose", "three"]]);
  assert.deepEqual(texts(cut("- a\n\n- b\n\n  more\n\nend")), [["prose", "- a\n\n- b\n\n  more"], ["prose", "end"]]);
  assert.deepEqual(texts(cut("Say:\n- a\n\n- b\n")), [["prose", "Say:\n- a\n\n- b"]]);
  assert.deepEqual(texts(cut("a\n```py\nx = 1\n\ny = 2\n```\nb")), [["prose", "a"], ["code", "x = 1\n\ny = 2"], ["prose", "b"]]);
  assert.deepEqual(texts(cut("````\n```\nin\n```\n````")), [["code", "```\nin\n```"]]);
  assert.deepEqual(texts(cut("- a\n  ```\n  x\n\ny\n  ```\n- b")), [["prose", "- a\n  ```\n  x\n\ny\n  ```\n- b"]]);
  assert.deepEqual(texts(cut("a\r\n\r\nb\r\n")), [["prose", "a"], ["prose", "b"]]);
  assert.equal(cut("```TypeScript x\n1")[0].lang, "typescript");
  assert.deepEqual(cut(""), []);
});

test("however a text is split into chunks, its blocks are the same, and a finished block never changes", () => {
  const text = "# A\n\nOne *two*\n\n```js\nlet a;\n\n```\n1. x\n\n   y\n\n2. z\n\nEnd ~~~\n~~~\nopen\n\nfence";
  const wanted = texts(cut(text));
  for (let size = 1; size < 9; size++) {
    const cutter = new Cutter();
    const seen = [];
    for (let at = 0; at < text.length; at += size) {
      cutter.push(text.slice(at, at + size));
      seen.forEach((block, n) => assert.equal(cutter.done[n], block));
      seen.splice(0, seen.length, ...cutter.done);
    }
    cutter.push("\n");
    const open = cutter.open;
    assert.deepEqual([...texts(cutter.done), ...(open ? [[open.kind, open.text.trimEnd()]] : [])], wanted);
  }
});

test("no block grows without end", () => {
  for (const text of ["word ".repeat(40_000), "x".repeat(100_000), "- item of a list\n".repeat(10_000), "a line\n".repeat(20_000)]) {
    const blocks = cut(text);
    assert.ok(blocks.length > 1 && blocks.every((block) => block.text.length < 40_000), `${blocks.length}`);
    assert.equal(blocks.map((block) => block.text).join("").replace(/\s/g, ""), text.replace(/\s/g, ""));
  }
});

test("a diff has its lines, numbers, gaps and marked words", () => {
  const old = Array.from({ length: 20 }, (_, n) => `line ${n + 1}`);
  const made = old.with(9, "line ten").toSpliced(15, 0, "more");
  const found = diffOf(`${old.join("\n")}\n`, `${made.join("\n")}\n`);
  assert.deepEqual([found.added, found.removed], [2, 1]);
  assert.equal(found.rows.filter((row) => row.kind === "gap").length, 0);
  const gone = found.rows.find((row) => row.kind === "del");
  assert.deepEqual([gone.before, gone.spans], [10, [{ text: "line ", isMarked: false }, { text: "10", isMarked: true }]]);
  assert.equal(found.rows[0].before, 7);
  const far = diffOf(`a\n${"same\n".repeat(30)}b\n`, `A\n${"same\n".repeat(30)}B\n`);
  assert.equal(far.rows.filter((row) => row.kind === "gap").length, 1);
  assert.deepEqual(diffOf(null, "x\n").rows.map((row) => [row.kind, row.after]), [["add", 1]]);
  assert.deepEqual(diffOf("x\n", "").rows.map((row) => row.kind), ["del"]);
  assert.deepEqual(diffOf("same", "same").rows, []);
  assert.equal(diffOf("alpha", "1234567").rows.every((row) => row.spans.every((span) => !span.isMarked)), true);
});

test("the steps of a diff turn one list into the other, also where they are many", () => {
  let seed = 7;
  const random = (below) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  for (let round = 0; round < 300; round++) {
    const a = Array.from({ length: random(12) }, () => "abc"[random(3)]);
    const b = Array.from({ length: random(12) }, () => "abc"[random(3)]);
    for (const most of [100, 3]) {
      let at = 0;
      let to = 0;
      const out = [];
      for (const step of script(a, b, most)) {
        if (step === "same") {
          assert.equal(a[at], b[to]);
          out.push(a[at++]);
          to++;
        } else if (step === "del") at++;
        else out.push(b[to++]);
      }
      assert.deepEqual([out, at], [b, a.length]);
    }
  }
  const large = Array.from({ length: 30_000 }, (_, n) => `${n}`);
  assert.equal(script(large, [...large].reverse(), 800).length >= 30_000, true);
});

test("output keeps its colours as classes and drops every other sequence", () => {
  assert.deepEqual(sgr("\x1b[31mred\x1b[0m plain"), [[{ text: "red", look: "c-r" }, { text: " plain", look: "" }]]);
  assert.deepEqual(sgr("\x1b[1;92mok\x1b[m"), [[{ text: "ok", look: "c-g c-o" }]]);
  assert.equal(sgr("\x1b[38;2;250;20;20mx")[0][0].look, "c-r");
  assert.equal(sgr("\x1b[38;5;33mx")[0][0].look, "c-b");
  assert.equal(sgr("\x1b[48;5;33mx")[0][0].look, "");
  for (const dropped of ["\x1b]0;title\x07", "\x1b]8;;https://x\x1b\\", "\x1bP1$q\x1b\\", "\x1b]52;c;AAAA\x07", "\x1b[6n", "\x1b[?25l", "\x1b(B", "\x9b31m", "\x07", "\x00", "\x1bc"]) {
    assert.equal(bare(sgr(`a${dropped}b`)).join("|"), "ab", JSON.stringify(dropped));
  }
  assert.deepEqual(bare(sgr("an open string: \x1b]0;never ended")), ["an open string: "]);
});

test("progress bars, tabs and screen programs look as they did at last", () => {
  assert.deepEqual(bare(sgr(" 10 %\r 99 %\r100 %\ndone\n")), ["100 %", "done"]);
  assert.deepEqual(bare(sgr("abc\b\bX")), ["aXc"]);
  assert.deepEqual(bare(sgr("long line\r\x1b[Kshort")), ["short"]);
  assert.deepEqual(bare(sgr("one\ntwo\x1b[1A\r\x1b[2KONE\n")), ["ONE", "two"]);
  assert.deepEqual(bare(sgr("a\tb")), ["a       b"]);
  assert.deepEqual(bare(sgr("$ top\n\x1b[?1049h\x1b[2J\x1b[1;1Hfirst\x1b[2J\x1b[1;1Hlast\x1b[3;2Hrow\x1b[?1049l$")), ["$ top", "", "last", "", " row", "$"]);
  assert.equal(sgr("\x1b[999999999Bx\x1b[999999999Cy").length < 3_000, true);
});

test("the last lines of an output are counted from its end", () => {
  assert.deepEqual(lastLines("a\nb\nc\n", 2), { text: "b\nc\n", before: 1 });
  assert.deepEqual(lastLines("a\nb", 5), { text: "a\nb", before: 0 });
  assert.deepEqual(lastLines("1\n2\n3\n4", 1), { text: "4", before: 3 });
});

test("what hides is spelled, what languages need is not", () => {
  assert.deepEqual(visible("rm \u202etxt").map((piece) => piece.text), ["rm ", "U+202E", "txt"]);
  assert.equal(plain("a\u200bb\u0007c\u{e0041}d\ud800e"), "aU+200BbU+0007cU+E0041dU+D800e");
  assert.equal(plain("می\u200cخواهم 👩\u200d💻 ⚠\ufe0f a\r\nb\tc"), "می\u200cخواهم 👩\u200d💻 ⚠\ufe0f a\nb\tc");
  assert.equal(plain("rm\u00a0-rf\u200d", "exact"), "rmU+00A0-rfU+200D");
  assert.equal(plain("plain text", "exact"), "plain text");
});

test("code is coloured in five classes and stays the same text", () => {
  const looks = (text, language) => highlight(text, language).filter((token) => token.look !== "").map((token) => `${token.look}:${token.text}`);
  assert.deepEqual(looks("def f(x): return 10  # why", "python"), ["k1:def", "k1:return", "k2:10", "k3:# why"]);
  assert.deepEqual(looks("const a = `x`; // y", "ts"), ["k1:const", "k4:`x`", "k3:// y"]);
  assert.deepEqual(looks("SELECT 1", "sql"), ["k1:SELECT", "k2:1"]);
  assert.deepEqual(looks("-a\n+b", "diff"), ["minus:-a\n", "plus:+b"]);
  assert.deepEqual(looks("const", "nothing"), []);
  const odd = `x = """open ' \n # not \\" <b>`;
  for (const language of ["python", "js", "sh", "html", "css", "json", "lua"]) {
    assert.equal(highlight(odd, language).map((token) => token.text).join(""), odd);
  }
  assert.equal(languageOf("src/a.test.ts"), "ts");
  assert.equal(languageOf("/x/Makefile"), "makefile");
});

test("the size of a picture is read from its first bytes, and only pictures without script get an address", () => {
  const png = Buffer.concat([Buffer.from("89504e470d0a1a0a0000000d49484452", "hex"), Buffer.from([0, 0, 2, 0, 0, 0, 1, 0]), Buffer.alloc(20)]);
  assert.deepEqual(sizeOf(png.toString("base64")), { width: 512, height: 256 });
  const gif = Buffer.concat([Buffer.from("GIF89a"), Buffer.from([10, 0, 20, 0]), Buffer.alloc(30)]);
  assert.deepEqual(sizeOf(gif.toString("base64")), { width: 10, height: 20 });
  const jpeg = Buffer.concat([Buffer.from("ffd8ffe000040000ffc0001108001000200301", "hex"), Buffer.alloc(30)]);
  assert.deepEqual(sizeOf(jpeg.toString("base64")), { width: 32, height: 16 });
  assert.equal(sizeOf("????"), null);
  assert.equal(dataAddress("image/svg+xml", "AAAA"), null);
  assert.equal(dataAddress("image/png", 'A"onerror'), null);
  assert.equal(dataAddress("image/png", "AAAA"), "data:image/png;base64,AAAA");
});

test("headings of an agent keep their depth as a look", () => {
  assert.equal(markdown("# A").trim(), '<h3 data-depth="1">A</h3>');
  assert.match(markdown("- [x] done"), /☑ done/);
});

test("HTML in Markdown is shown as it was written, but for tags without attributes", () => {
  assert.equal(markdown("a<br>b <kbd>Esc</kbd> <b title=x>c</b>").trim(), "<p>a<br>b <kbd>Esc</kbd> &lt;b title=x&gt;c</b></p>");
  assert.equal(markdown("<div onclick=x>\n&amp;</div>").trim(), "&lt;div onclick=x&gt;\n&amp;amp;&lt;/div&gt;");
});
