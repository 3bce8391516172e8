"""The scripted model of `dragoman demo`: six steps through a small project, each chosen by the words of a sentence.

Owns the project, the words, and what each step does and answers. It looks at nothing but the request: what a step found
out is in the results of its calls, so each works at any time, any number of times, and after the user has changed or
removed the files. Every answer names a step to try next, and differs from the one before.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dragoman.builtin.models.scripted import ScriptAction, ScriptedModel, prompt_of
from dragoman.builtin.refusals import refusal_in
from dragoman.text.terminal import shorten
from dragoman.uistream.messages import ToolPart

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.builtin.models.model import ModelRequest

NAME: Final = "tour"
AGENTS_FILE: Final = "tour-agents.txt"
"""What the demo found on the user's machine, as Markdown, in the data folder of the demo."""
README: Final = "README.md"
WORDS: Final = "words.txt"
PROGRAM: Final = "greet"
TESTS: Final = "test"
_GREETINGS: Final = (
    "Hello, {name}.",
    "Hello, {name}! Nice to meet you.",
    "Welcome back, {name}!",
    "Good to see you, {name}. What shall we build?",
)
PROJECT: Final = {
    README: """\
# Greeting

`sh greet NAME` greets with the words of `words.txt`; `sh test` tests it.
""",
    WORDS: f"{_GREETINGS[0]}\n",
    PROGRAM: """\
# Greets the name on the command line.
sed "s/{name}/${1:-world}/" words.txt
""",
    TESTS: """\
# The name has to be in the greeting.
if sh greet Ada | grep -q Ada; then echo "1 test passed"; else echo "1 test failed"; exit 1; fi
""",
}
"""The files of the project, as the tour begins."""
INTRODUCTION: Final = """\
A tour: the model is scripted, calls no service, and works on a copy.
Type `edit the greeting`; or read, run, plan, review, rewind; or `agents`.
"""

_FILES: Final = {
    README: "readme",
    TESTS: "test tests",
    PROGRAM: "program programm programme programa code greet",
    WORDS: "greeting words txt",
}
"""The words that name a file of the project."""
_LOOKED_AT: Final = 2_000
"""So many characters of a prompt are searched for words."""
_SHOWN: Final = 300
_LINE: Final = re.compile(r"^\s*\d+[\t ]+(\S.*?)\s*$", re.MULTILINE)
"""The first line of a file that is not empty, as the tool `read` shows it behind its number."""

_LIST: Final = """
1. `read the readme`: a file, read without a question
2. `edit the greeting`: a change, which you are asked about first
3. `run the program`: a command, which you are asked about, too
4. `plan a change`: a plan, and how far it is
5. `review the changes`: what a turn changed, line by line
6. `rewind`: files and conversation as they were before a turn

`agents` lists the real agents of this machine."""

# Words by step. One that ends with `*` stands for all that begin like it; those with other letters than Latin ones are
# looked for anywhere, because some languages write no spaces.
_REWIND: Final = """
rewind* undo* undid revert* restor* rollback* unchange* discard* reset* redo "roll back" "take back"
"take it back" "taken back" "put back" "change back" "changes back" "go back" "as it was" "as before"
rueckgaengig ruckgangig zuruck* annule* annuler annulla* defaire deshac* deshaz revertir desfaz* ongedaan
terug* angra cofnij отмен* откат* верни 元に戻 取り消 撤销 回退 还原 되돌*"""
_REVIEW: Final = """
review* diff diffs differ* compare* comparison changed changes modified modifications "what did you do"
"did you change" "have you done" "you did" uberpruf* prufe prufen anderungen geandert unterschied* revoir
relis verifie* changements revis* cambios diferenci* rived* modifiche differenz* alteracoes bekijk
wijzigingen изменени* проверь レビュー 変更点 差分 审查 更改 检查 검토"""
_PLAN: Final = """
plan plans planning planned planen plane todo* roadmap steps schritte planifi* planific* planea* pianific*
planej* stappen etapes pasos passi план* 計画 计划 规划 계획"""
_COMMAND: Final = """
run runs running execut* exec start launch* command commands test tests testing shell bash terminal python
build compile ausfuhr* fuhre starte* testen lance* lancer essai* teste* tester ejecut* corre prueba* esegui*
prova rodar uitvoeren запус* выполн* тест* 実行 テスト 运行 执行 测试 실행"""
_EDIT: Final = """
edit edits editing change changing modify* fix fixes fixing improve* rewrite rewrites write writes replace*
update* make makes add adds create* delete* remove* rename* refactor* implement* translate* correct*
friendlier nicer politer bearbeit* ander* schreib* mach mache erstell* verbesser* losch* ersetz* modifi*
edite* ecri* corrige* ajoute* rends edita* cambia* escrib* arregl* mejor* scriv* correggi* migliora* mude
mudar escrev* melhor* wijzig* schrijf* измен* исправ* напиши 編集 変更 修正 書い 修改 编辑 编写 写 수정 편집"""
_READ: Final = """
read reads reading open view cat print look looks inspect* examine* ls list lies lese* offne* lire lis lisez
ouvre* lee leer abre* leggi* ler leia lees прочит* чита* открой 読 開 阅读 读 打开 읽* show shows explain*
describ* summar* zeig* erklar* montre* explique* muestra* explica* mostra* покаж* объясн* 見せ 説明 看 显示
解释 보여"""
_READ_WEAKLY: Final = """
"what is this" "what is it" "what does" file files project code readme greeting py projekt datei* code
projet fichier* proyecto archivo* progetto проект файл* ファイル 项目 文件"""
_AGENTS: Final = """
agent agents claude codex gemini opencode copilot goose anthropic openai ollama gpt llm provider* model
models modell* modele* modelo* modello apikey "api key" "a key" login agente agenti агент* エージェント
モデル 模型 代理 에이전트"""
_HELP: Final = """
help hilfe aide ayuda aiuto ajuda hulp помощь 助けて ヘルプ 帮助 도움 "what can you" "who are you"
"what are you" "what do you do" "how do i" "how does this work" "was kannst" "wer bist" "que peux" "qui es"
"que puedes" "quien eres" "cosa puoi" "chi sei" tour demo"""
_NEXT: Final = """
next continue "go on" "go ahead" ok okay yes sure weiter ja continuer suivant oui siguiente si avanti
volgende да дальше 次 はい 继续 下一步 다음"""
_HELLO: Final = """
hello hi hey howdy greetings moin hallo servus gruss* bonjour salut coucou hola buenos buenas ciao salve ola
oi hej hei ahoj czesc namaste merhaba salam shalom aloha привет здравствуй* こんにちは おはよう 你好 您好
안녕* سلام مرحبا שלום नमस्ते"""


class TourModel(ScriptedModel):
    """A scripted model that takes the sentences of a user, and begins by saying so."""

    name = NAME
    introduction = INTRODUCTION

    def __init__(self) -> None:
        super().__init__(choose=choose_actions)


class CallResult(NamedTuple):
    """What a finished call of the running answer gave."""

    is_done: bool
    text: str


class TourTurn(NamedTuple):
    """What a step knows: the sentence, how many there were before it, and the results so far."""

    words: str
    """The sentence, plain: small letters without accents, a space at both ends and between words."""
    number: int
    results: Sequence[CallResult]
    done: Sequence[str] = ()
    """The steps of the sentences before."""

    def vary(self, *texts: str) -> str:
        """Return one of some texts, not that of the sentence before."""
        return texts[self.number % len(texts)]

    def has(self, words: str) -> bool:
        """Whether the sentence has one of some words."""
        return _position(self.words, words) is not None


def choose_actions(request: ModelRequest) -> list[ScriptAction]:
    """Return what the model does next in the running turn."""
    answer = request.messages[-1]
    prompts = [message for message in request.messages if message.role == "user"]
    done: list[str] = []
    for message in prompts[:-1]:
        done.append(find_step(_plain(prompt_of((message,))), done))
    results = tuple(
        CallResult(part.state == "output-available", _text_of(part))
        for part in answer.parts
        if isinstance(part, ToolPart) and part.is_over
    )
    words = _plain(prompt_of(request.messages))
    turn = TourTurn(words, max(len(prompts) - 1, 0), results, done)
    return _STEPS[find_step(words, done)](turn)


def find_step(words: str, done: Sequence[str] = ()) -> str:
    """Return the step that a sentence means: the name of one of the six, or `agents`, `hello`, `list`.

    Args:
        words: the sentence, plain.
        done: the steps before it, for a sentence such as "go on".
    """
    if numbered := re.fullmatch(r" (?:(?:step|schritt|etape|paso|passo) )?([1-6]) ", words):
        return STEPS[int(numbered[1]) - 1]
    # A word about a change decides before the change itself: "undo the edit", "show me what changed".
    for steps in (
        (("rewind", _REWIND), ("review", _REVIEW), ("plan", _PLAN)),
        (("agents", _AGENTS),),
        (("run", _COMMAND), ("edit", _EDIT), ("read", _READ)),
        (("list", _HELP),),
        (("read", _READ_WEAKLY),),
    ):
        found = [(place, name) for name, listed in steps if (place := _position(words, listed)) is not None]
        if found:
            return min(found)[1]
    if _position(words, _NEXT) is not None:
        last = next((name for name in reversed(done) if name in STEPS), "")
        return _FOLLOWING.get(last, "read")
    return "hello" if _position(words, _HELLO) is not None else "list"


# Steps


def _read(turn: TourTurn) -> list[ScriptAction]:
    named = [name for name, listed in _FILES.items() if turn.has(listed)]
    name = (named or [turn.vary(README, WORDS, PROGRAM)])[0]
    if not turn.results:
        return [_say(turn.vary(f"I read {name}.", f"Let me look at {name}.", f"{name} it is.")), _do("read", name)]
    if not turn.results[0].is_done:
        return [_failed(turn, f"{name} was not read", turn.results[0], "`edit the greeting` writes a new one")]
    about = {
        README: "It says what the project does and how it is started.",
        WORDS: "These are the words of the greeting; `{name}` is replaced.",
        PROGRAM: "It takes the words from words.txt, and puts the name in.",
        TESTS: "It has one test: the name has to be in the greeting.",
    }[name]
    following = turn.vary("`edit the greeting`", "`plan a change`", "`run the tests`")
    return [_say(f"{about} Reading inside of the project needs no question. Next: {following}.")]


def _edit(turn: TourTurn) -> list[ScriptAction]:
    if not turn.results:
        first = turn.vary("I look at the greeting before I change it.", "First, the words as they are now.")
        return [_say(first), _do("read", WORDS)]
    old = _greeting_in(turn.results[0])
    new = _GREETINGS[(_GREETINGS.index(old) + 1 if old in _GREETINGS else 1) % len(_GREETINGS)]
    if len(turn.results) == 1:
        if not old:  # the user has removed the file, or emptied it
            again = "The greeting is not there any more, so I write it again."
            return [_say(again), _do("write", f"{WORDS} {new}\n")]
        change = {"path": WORDS, "old": old, "new": new}
        return [_do("call", f"edit {msgspec.json.encode(change).decode()}")]
    if not turn.results[1].is_done:
        return [_failed(turn, f"{WORDS} was not changed", turn.results[1], "`edit the greeting` asks again")]
    following = turn.vary("`run the program` shows it", "`review the changes`", "`run the tests`")
    return [_say(f"The greeting is now “{new}” Next: {following}; `/undo` takes it back.")]


def _run(turn: TourTurn) -> list[ScriptAction]:
    if not turn.results:
        is_test = turn.has("test tests testing testen tester teste* тест* テスト 测试 prueba*")
        first = turn.vary("I run it, if you let me.", "This is a command, so you are asked.", "One command:")
        return [_say(first), _do("run", f"sh {TESTS if is_test else PROGRAM}")]
    result = turn.results[0]
    if not result.is_done:
        return [_failed(turn, "The command did not run to its end", result, "`read the program`")]
    printed = "\n".join([line[:100] for line in result.text.splitlines() if line.strip(" -")][:6])
    following = turn.vary("`edit the greeting`, and run it again", "`review the changes`", "`plan a change`")
    shown = f"It printed:\n\n```\n{printed}\n```\n\n" if printed else "It printed nothing. "
    return [_say(f"{shown}Next: {following}.")]


def _plan(turn: TourTurn) -> list[ScriptAction]:
    steps = ["Read how it is used", "Look at the words", "See where they are used"]
    files = (README, WORDS, PROGRAM)
    count = len(turn.results)
    if count < 2 * len(steps):
        at = count // 2
        if count % 2:
            return [_do("read", files[at])]
        marked = [f"[{'x' if place < at else '>' if place == at else ' '}] {step}" for place, step in enumerate(steps)]
        first = [_say(turn.vary("A plan of three steps.", "Three steps; you see how far I am."))] if not at else []
        return [*first, _do("todo", "; ".join(marked))]
    if count == 2 * len(steps):
        return [_do("todo", "; ".join(f"[x] {step}" for step in steps))]
    following = turn.vary("`edit the greeting`", "`run the tests`", "`edit the greeting`, and then `review`")
    return [_say(f"All three are done: a plan changes nothing by itself. Next: {following}.")]


def _review(turn: TourTurn) -> list[ScriptAction]:
    if not turn.results:
        first = turn.vary("I compare the greeting with how it was.", "What is different from the beginning?")
        return [_say(first), _do("read", WORDS)]
    changed = _change(turn.results[0])
    if not changed:
        following = turn.vary("`edit the greeting` first", "`edit`, and ask me again")
        return [_say(f"Nothing differs from how the tour began, so there is nothing to review. Next: {following}.")]
    how = "`/diff` (or Alt+D) shows the change of a turn; in the full screen you keep or take back each part"
    return [_say(f"{changed}\n\n{how}. Next: {turn.vary('`/diff`', '`rewind`', '`run the program`')}.")]


def _rewind(turn: TourTurn) -> list[ScriptAction]:
    if not turn.results:
        first = turn.vary("I look whether there is something to take back.", "Is there something to take back?")
        return [_say(first), _do("read", WORDS)]
    changed = _change(turn.results[0])
    if not changed:
        following = turn.vary("`edit the greeting`, then `rewind`", "`edit`, and then `/undo`")
        return [_say(f"All is as it was at the beginning: there is nothing to take back. Next: {following}.")]
    how = (
        "Taking back is yours to do, not the agent's: `/rewind` lists the turns, and `/rewind` with the number of the"
        " one that changed a file takes it back, with all after it; `/redo` brings them back"
    )
    return [_say(f"{changed}\n\n{how}. Next: {turn.vary('`/rewind`', 'type `/rewind`')}, then `read the greeting`.")]


def _agents(turn: TourTurn) -> list[ScriptAction]:
    from dragoman.settings.places import data_dir

    try:
        found = (data_dir() / AGENTS_FILE).read_text().strip()
    except OSError:
        found = "`dragoman agents` lists the real ones."
    first = turn.vary("This model is only a script.", "I am a script.", "Real models need more than this script.")
    return [_say(f"{first} {found}\n\nNext here: {turn.vary('`edit the greeting`', '`plan a change`')}.")]


def _hello(turn: TourTurn) -> list[ScriptAction]:
    first = turn.vary(
        "Hello! I am a script, not a model, but I can show you around:",
        "Hello again. Six things can be tried here:",
        "Good day! This tour has six steps:",
    )
    return [_say(f"{first}\n{_LIST}")]


def _listed(turn: TourTurn) -> list[ScriptAction]:
    first = turn.vary(
        "This model is scripted: it knows six steps, and looks for their words in what you type.",
        "I did not find a step in that. I am a script with six of them, not a model.",
        "A real agent would think about this; this one is scripted, and has six steps.",
        "Scripted as I am, I can only do one of these.",
    )
    return [_say(f"{first}\n{_LIST}")]


STEPS: Final = ("read", "edit", "run", "plan", "review", "rewind")
_FOLLOWING: Final = dict(zip(STEPS, (*STEPS[1:], STEPS[0]), strict=True))
_STEPS: Final[dict[str, Callable[[TourTurn], list[ScriptAction]]]] = {
    "read": _read,
    "edit": _edit,
    "run": _run,
    "plan": _plan,
    "review": _review,
    "rewind": _rewind,
    "agents": _agents,
    "hello": _hello,
    "list": _listed,
}


def _say(text: str) -> ScriptAction:
    return ScriptAction("say", text)


def _do(verb: str, rest: str) -> ScriptAction:
    return ScriptAction(verb, rest)


def _failed(turn: TourTurn, what: str, result: CallResult, following: str) -> ScriptAction:
    why = shorten(" ".join(result.text.split()), _SHOWN).rstrip(".")
    first = turn.vary(f"{what}: {why}.", f"That is fine: {what[0].lower()}{what[1:]}. {why}.")
    return _say(f"{first} Next: {following}.")


def _change(result: CallResult) -> str:
    """Return how the greeting differs from the one of the beginning; empty if it does not."""
    greeting = _greeting_in(result)
    if not greeting:
        return f"{WORDS} has no greeting any more: it was removed or emptied."
    return "" if greeting == _GREETINGS[0] else f"The greeting was “{_GREETINGS[0]}” It is “{greeting}”"


def _greeting_in(result: CallResult) -> str:
    """Return the first line of the file that was read; empty if there is none."""
    found = _LINE.search(result.text) if result.is_done else None
    return "" if found is None else found[1]


def _text_of(part: ToolPart) -> str:
    if part.state == "output-available":
        return str(part.output.get("text", part.output) if isinstance(part.output, dict) else part.output)
    return refusal_in(part) if part.state == "output-denied" else str(part.error_text or part.state)


def _plain(text: str) -> str:
    """Return a text with small letters and without accents, its words between single spaces."""
    words = " ".join(re.findall(r"[^\W_]+", _bare(text[:_LOOKED_AT])))
    return f" {words} "


def _bare(text: str) -> str:
    letters = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if not "\u0300" <= letter <= "\u036f"))


def _position(words: str, listed: str) -> int | None:
    """Return where the first of some listed words is in a plain sentence; None if none is."""
    found = _pattern(listed).search(words)
    return None if found is None else found.start()


@cache
def _pattern(listed: str) -> re.Pattern[str]:
    forms = []
    for phrase, word in re.findall(r'"([^"]+)"|(\S+)', listed):
        bare = _bare(phrase or word)
        stem = re.escape(bare.removesuffix("*"))
        ending = r"[^ ]*(?= )" if bare.endswith("*") else "(?= )"
        forms.append(f"(?<= ){stem}{ending}" if bare.isascii() else stem)
    return re.compile("|".join(forms))
