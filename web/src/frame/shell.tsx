/** The frame around every screen: side bar or tab bar, banner, live region, notes, theme and keys. */
import { effect } from "@preact/signals";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { AppContext, useApp, type App } from "../app";
import { Board } from "../board/board";
import { titleOf } from "../board/facts";
import { Inbox } from "../inbox/inbox";
import { Pairing } from "../pairing/pairing";
import { followQuestions } from "../question/lasting";
import { LookedAt } from "../question/questions";
import { cardInSight } from "../question/sight";
import { words } from "../words";
import { Banner } from "./banner";
import { over } from "./over";
import { listenForKeys, useKeys } from "./keys";
import { lazy } from "./lazy";
import { LiveRegion } from "./live";
import { go, pathOf, place } from "./router";
import { isDrawerOpen, SideBar, toggleSide } from "./side";
import { TabBar } from "./tabs";
import { followTheme } from "./theme";
import { Toasts } from "./toasts";
import { isPhone } from "./width";

const loadConversation = () => import("../thread/conversation").then((module) => module.Conversation);
const Conversation = lazy(loadConversation);
const Fresh = lazy(() => import("../fresh/fresh").then((module) => module.Fresh));
const Settings = lazy(() => import("../settings/settings").then((module) => module.Settings));
const Palette = lazy(() => import("./palette").then((module) => module.Palette));
const KeyHelp = lazy(() => import("./key_help").then((module) => module.KeyHelp));

function Screen() {
  const where = place.value;
  switch (where.name) {
    case "session":
      return <Conversation key={where.id} sessionId={where.id} />;
    case "inbox":
      return <Inbox />;
    case "new":
      return <Fresh />;
    case "settings":
    case "devices":
      return <Settings part={where.name === "devices" ? "devices" : "appearance"} />;
    default:
      return <Board />;
  }
}

function titleOfPlace(app: App): string {
  const where = place.value;
  const count = app.hiddenCount.value ?? app.questions.value.length;
  const row = where.name === "session" ? app.rows.value.find((found) => found.sessionId === where.id) : undefined;
  const names = { inbox: words.frame.inbox, new: words.frame.newSession, settings: words.frame.settings, devices: words.devices.title, board: words.frame.sessions };
  const name = where.name === "session" ? (row === undefined ? words.frame.sessions : titleOf(row)) : names[where.name];
  return `${count > 0 ? `(${count}) ` : ""}${name} · ${words.name}`;
}

/** Goes to the next or previous session that needs the user. */
function goToNeed(app: App, step: 1 | -1): unknown {
  const ids = [...new Set(app.questions.value.map((question) => question.sessionId))];
  if (ids.length === 0) return false;
  const where = place.value;
  const at = where.name === "session" ? ids.indexOf(where.id) : -1;
  const next = at < 0 ? (step > 0 ? 0 : ids.length - 1) : (at + step + ids.length) % ids.length;
  return go(pathOf(ids[next] ?? ""));
}

function Frame() {
  const app = useApp();
  const where = place.value;
  const path = where.name === "session" ? where.id : where.name;
  // Not by drawing: the title goes on in a page that is hidden.
  useEffect(() => effect(() => {
    document.title = titleOfPlace(app);
  }), []);
  // At once: a key that opens something may follow before the next paint.
  useLayoutEffect(() => {
    isDrawerOpen.value = false;
    over.value = null;
  }, [path]);
  useKeys({
    ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((number) => [`alt+${number}`, (event: KeyboardEvent) => {
      const card = cardInSight();
      return card === null ? false : card.press(number, event);
    }])),
    "mod+k": () => (over.value = over.value === "palette" ? null : "palette"),
    "mod+b": () => (isPhone.value ? false : toggleSide()),
    "?": () => (over.value = "keys"),
    "g i": () => go("/inbox"),
    "g s": () => go("/"),
    n: () => go("/new"),
    "alt+ArrowDown": () => goToNeed(app, 1),
    "alt+ArrowUp": () => goToNeed(app, -1),
  });
  const inFront = (
    <>
      {over.value === "palette" && <Palette onClose={() => (over.value = null)} />}
      {over.value === "keys" && <KeyHelp onClose={() => (over.value = null)} />}
      <LookedAt />
      <Toasts />
      <LiveRegion />
    </>
  );
  if (isPhone.value) {
    return (
      <div class="phone">
        <Banner />
        <Screen />
        {where.name !== "session" && <TabBar />}
        {inFront}
      </div>
    );
  }
  return (
    <div class="app">
      <SideBar />
      <Banner />
      <Screen />
      {inFront}
    </div>
  );
}

function Root() {
  const app = useApp();
  useEffect(() => followTheme(app), []);
  useEffect(() => followQuestions(app), []);
  useEffect(() => {
    // A session that is about to be opened: its screen is on the way before the press ends.
    const near = (event: Event): void => {
      if (event.target instanceof Element && event.target.closest('a[href^="#/s/"]') !== null) void loadConversation().catch(() => undefined);
    };
    const names = ["pointerover", "pointerdown", "focusin"] as const;
    for (const name of names) addEventListener(name, near, { passive: true });
    return () => names.forEach((name) => removeEventListener(name, near));
  }, []);
  useEffect(() => listenForKeys(() => app.settings.value.letters), []);
  const line = app.line.value;
  return line.state === "unpaired" ? <Pairing key={line.why} why={line.why} /> : <Frame />;
}

export function Shell({ app }: { app: App }) {
  return <AppContext.Provider value={app}><Root /></AppContext.Provider>;
}
