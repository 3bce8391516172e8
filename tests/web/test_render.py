"""The page's renderers: pure ones in Node, what makes elements in a browser."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests import machine
from tests.web.attacks import ATTACKS
from tests.web.kit import Web

WEB: Final = Path(__file__).parents[2] / "web"
LINKS: Final = (
    "[bank.example](https://bank.example@elsewhere.example/) [p\u0430ypal.com](https://p\u0430ypal.com/) \u202etxt"
)
NODE: Final = machine.program("node")


@pytest.mark.skipif(
    NODE is None or not (WEB / "node_modules" / "esbuild").is_dir(), reason="needs Node and the page's packages"
)
def test_pure_renderers_cut_compare_and_colour_as_described() -> None:
    """Blocks, diffs, output, hidden characters and highlighting, in the tests of web/tests/render.mjs."""
    assert NODE is not None
    ran = subprocess.run([NODE, WEB / "tests" / "render.mjs"], capture_output=True, text=True, timeout=90, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert "# fail 0" in ran.stdout


# One text in every place of the conversation that shows text of others.
SHOW = """async ({id, texts, at}) => {
    const thread = dragoman.thread(id);
    const next = () => new Promise(done => setTimeout(done, 5));
    texts.forEach((text, place) => {
    const n = at + place;
    const say = (kind, part) => ({sessionUpdate: kind, messageId: `${kind}${n}`, content: part});
    const call = (part, members) =>
        ({sessionUpdate: 'tool_call', toolCallId: `${part}${n}`, title: text, status: 'failed', ...members});
    const terminal = `t${n}`;
    const updates = [
        say('user_message_chunk', {type: 'text', text}),
        say('user_message_chunk', {type: 'resource_link', uri: text, name: text}),
        say('agent_thought_chunk', {type: 'text', text}),
        say('agent_message_chunk', {type: 'text', text}),
        say('agent_message_chunk', {type: 'image', mimeType: text, data: text, uri: text}),
        say('agent_message_chunk', {type: 'image', mimeType: 'image/png', data: text, uri: text}),
        say('agent_message_chunk', {type: 'audio', mimeType: 'audio/wav', data: text}),
        say('agent_message_chunk', {type: 'resource', resource: {uri: text, text, mimeType: text}}),
        call('read', {kind: 'read', locations: [{path: text}],
                      content: [{type: 'content', content: {type: 'text', text}}]}),
        call('edit', {kind: 'edit', locations: [{path: text, line: 3}],
                      content: [{type: 'diff', path: text, oldText: `${text}\\nold`, newText: `${text}\\nnew`}]}),
        call('run', {kind: 'execute', rawInput: {command: text}, content: [{type: 'terminal', terminalId: terminal}],
                     _meta: {terminal_info: {terminal_id: terminal, cwd: text}}}),
        {sessionUpdate: 'tool_call_update', toolCallId: `run${n}`,
         _meta: {terminal_output: {terminal_id: terminal, data: text},
                 terminal_exit: {terminal_id: terminal, exit_code: null, signal: text}}},
        call('other', {kind: text, rawInput: {[text]: text}}),
        {sessionUpdate: 'plan', entries: [{content: text, status: 'pending', priority: 'high'}]},
        {sessionUpdate: 'session_info_update', title: text},
        {sessionUpdate: 'available_commands_update', availableCommands: [{name: text, description: text}]},
        {sessionUpdate: 'config_option_update', configOptions: [{id: 'o', name: text, description: text, type: 'select',
         currentValue: text, options: [{value: text, name: text, description: text}, {value: 'b', name: text}]}]},
        {sessionUpdate: text, text},
    ];
    for (const update of updates) thread.onUpdate({update}, null);
    thread.fold.note(text, 'error', 0);
    thread.onTurnStarted({promptId: `p${n}`, at: Date.now()});
    thread.onTurnEnded({promptId: `p${n}`, error: {code: 1, message: `${text}\\n${text}`}});
    thread.problem.value = text;
    });
    thread.paint();
    await next();
    // What was unfolded before holds the view: the new rows are at its end.
    document.querySelector('.toend')?.click();
    await next();
    for (const fold of document.querySelectorAll('.thread button[aria-expanded=false]')) fold.click();
    await next();
    await next();
    return document.querySelectorAll('.thread [data-row]').length;
}"""
# What no text of an agent may become. The page's own elements are told apart by what they are made of.
FOUND = """() => {
    const inside = [...document.querySelectorAll('.thread *, .aside *, .bar *')];
    const bad = inside.filter(one =>
        /^(script|style|iframe|object|embed|link|meta|base|form|math|video|source|template)$/i.test(one.localName)
        || [...one.attributes].some(a => /^(on.*|srcdoc|ping|background|formaction)$/i.test(a.name))
        || one.closest('.cell') && one.hasAttribute('style')
        || one.closest('.prose')
            && (one.id || one.hasAttribute('name') || one.localName === 'button' || one.classList.contains('q'))
        || one.localName === 'a' && !/^(https:|mailto:|#\\/)/.test(one.getAttribute('href') ?? '#/')
        || one.localName === 'img'
            && !/^(data:image\\/(png|jpeg|gif|webp);|blob:|$)/.test(one.getAttribute('src') ?? ''));
    return bad.map(one => one.outerHTML.slice(0, 200)).concat(window.violations ?? []);
}"""


async def test_no_text_of_an_agent_becomes_anything_but_text(web: Web) -> None:
    """An alert, a request to elsewhere, a violation of the policy or an element that may not be: none, in any place."""
    assert len(ATTACKS) >= 60
    async with web.context() as context:
        page = await context.new_page()
        alerts: list[str] = []
        page.on("dialog", lambda dialog: alerts.append(dialog.message))
        await page.add_init_script(
            "window.violations = []; document.addEventListener('securitypolicyviolation',"
            " event => window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));"
        )
        await web.enter(page)
        session = await web.session(page)
        await page.evaluate("id => { location.hash = `#/s/${encodeURIComponent(id)}` }", session.id)
        await page.get_by_role("log", name="Conversation").wait_for()
        await page.set_viewport_size({"width": 1200, "height": 12000})  # all of it is in the document at once
        for at in range(0, len(ATTACKS), 4):
            texts = [*ATTACKS[at : at + 4]]
            shown = await page.evaluate(SHOW, {"id": session.id, "texts": texts, "at": at})
            assert shown >= 15 * len(texts), texts
            assert await page.evaluate(FOUND) == [], texts
        assert alerts == []


async def test_links_say_where_they_go_and_what_hides_is_spelled(web: Web) -> None:
    """The host behind the words of a link, look-alike letters in punycode, and characters that change the order."""
    async with web.page() as page:
        session = await web.session(page)
        await page.evaluate("id => { location.hash = `#/s/${encodeURIComponent(id)}` }", session.id)
        session.say(LINKS)
        prose = page.get_by_role("log", name="Conversation").locator(".prose")
        await prose.get_by_text("(elsewhere.example)").wait_for()
        assert "(xn--pypal-4ve.com)" in await prose.inner_text()
        assert "U+202E" in await prose.inner_text()


def test_html_becomes_elements_in_one_file_only() -> None:
    """Everything that the page is made of, but the sanitiser: no file has a word that makes elements of text."""
    words = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|srcdoc|\beval\b|document\.write|dangerouslySet|new Function"
    )
    sources = [path for path in (WEB / "src").rglob("*") if path.suffix in (".ts", ".tsx", ".html")]
    assert len(sources) > 50
    found = {path.name for path in sources if words.search(path.read_text()) and path.name != "sanitise.ts"}
    assert found == set()
    users = {
        path.name
        for path in sources
        if re.search(r"from \"dompurify\"|DOMParser|createContextualFragment", path.read_text())
    }
    assert users == {"sanitise.ts"}
    packages = json.loads((WEB / "package.json").read_text())["dependencies"].keys()
    # Preact writes HTML only where a component asks for it by name, which none does; marked makes text of text.
    assert set(packages) == {"@preact/signals", "dompurify", "esbuild", "marked", "preact"}
