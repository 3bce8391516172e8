/** The panel: plan, changed files, usage, who is here. What is empty is left out; on phones it is a sheet. */
import { useEffect, useState } from "preact/hooks";
import { useApp } from "../app";
import { Dialog } from "../frame/dialog";
import { Icon } from "../frame/icon";
import { clock, money } from "../frame/times";
import { isPhone } from "../frame/width";
import { fullness } from "../input/meters";
import type { Quota, Row } from "../model";
import { Plain } from "../render/Plain";
import { useTalk } from "../thread/context";
import { PlanList } from "../thread/plan";
import { spell, useSeconds } from "../thread/spans";
import type { HostMethod } from "../wire/types";
import { words } from "../words";

export function Panel({ row }: { row: Row | undefined }) {
  return <aside class="aside" aria-label={words.panel.name}><Sections row={row} /></aside>;
}

export function PanelSheet({ row, onClose }: { row: Row | undefined; onClose: () => void }) {
  return (
    <Dialog label={words.panel.name} look={isPhone.value ? "sheetp" : "drawer end"} onClose={onClose}>
      <div class="panelsheet">
        <Sections row={row} />
        <button type="button" class="btn" onClick={onClose}>{words.frame.close}</button>
      </div>
    </Dialog>
  );
}

function Sections({ row }: { row: Row | undefined }) {
  return <><Plan /><Changes row={row} /><Usage /><Here row={row} /></>;
}

function Plan() {
  const { thread } = useTalk();
  const plan = thread.plan.value;
  if (plan.length === 0) return null;
  const done = plan.filter((entry) => entry.status === "completed").length;
  return (
    <section class="panel">
      <h2>{words.panel.plan} <span class="num">{words.panel.of(done, plan.length)}</span></h2>
      <PlanList entries={plan} />
    </section>
  );
}

interface ChangedFile {
  path: string;
  change: string;
  added: number;
  removed: number;
}

function Changes({ row }: { row: Row | undefined }) {
  const app = useApp();
  const { sessionId, thread } = useTalk();
  const [files, setFiles] = useState<readonly ChangedFile[]>([]);
  const has = app.host.value?.methods.includes("_dragoman/changes") ?? false;
  const isRunning = thread.turn.value !== null;
  const counts = row?.own.changes;
  useEffect(() => {
    if (!has) return;
    let isGone = false;
    void lastTurn(sessionId, (method, params) => app.call(method, params)).then(
      (found) => isGone || setFiles(found),
      () => isGone || setFiles([]),
    );
    return () => {
      isGone = true;
    };
  }, [has, isRunning, counts?.files, counts?.added, counts?.removed]);
  if (files.length === 0) return null;
  return (
    <section class="panel">
      <h2>{words.panel.changed} <span class="num">{files.length}</span></h2>
      <ul class="files">
        {files.slice(0, 200).map((file) => (
          <li key={file.path} title={file.path}>
            <Icon name={file.change === "created" ? "plus" : file.change === "deleted" ? "x" : "pencil"} label={words.panel.changes[file.change] ?? file.change} />
            <span class="cut" dir="ltr"><Plain text={file.path.split("/").at(-1) ?? file.path} care="exact" /></span>
            <span class="n num">
              {file.added > 0 && <span class="plus">+{file.added}</span>}
              {file.removed > 0 && <span class="minus">−{file.removed}</span>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

async function lastTurn(sessionId: string, call: (method: HostMethod, params: unknown) => Promise<unknown>): Promise<ChangedFile[]> {
  const known = (await call("_dragoman/changes", { sessionId })) as { turns?: { turn: number; files: number; isRewound?: boolean }[] };
  const last = known.turns?.findLast((turn) => turn.files > 0 && turn.isRewound !== true);
  if (last === undefined) return [];
  const found = (await call("_dragoman/changes/files", { sessionId, turn: last.turn })) as { files?: ChangedFile[] };
  return found.files ?? [];
}

function Usage() {
  const { thread } = useTalk();
  const usage = thread.usage.value;
  const full = fullness(thread);
  const turn = thread.turn.value;
  const seconds = useSeconds(turn?.startedAt, turn !== null);
  const quota = thread.quota.value;
  if (full === null && usage?.cost === undefined && turn === null && quota === null) return null;
  const look = full === null || full < 80 ? "v" : full < 95 ? "w" : "b";
  return (
    <section class="panel">
      <h2>{words.panel.usage}</h2>
      {full !== null && (
        <>
          <div class="row s"><span class="grow">{words.panel.context}</span><span class="num soft">{words.panel.of(thousands(usage?.used ?? 0), thousands(usage?.size ?? 0))}</span></div>
          <svg class="meter" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label={words.input.context(full)}>
            <rect width="100" height="6" />
            <rect class={look} width={full} height="6" />
          </svg>
        </>
      )}
      <dl class="facts">
        {usage?.cost !== undefined && <><dt>{words.panel.cost}</dt><dd class="num">{money(usage.cost)}</dd></>}
        {quota !== null && <><dt>{words.panel.quota(quota.name ?? "")}</dt><dd class="num"><Plain text={quotaText(quota)} /></dd></>}
        {turn !== null && <><dt>{words.panel.turn}</dt><dd class="num">{spell(Math.floor(seconds))}</dd></>}
      </dl>
    </section>
  );
}

function quotaText(quota: Quota): string {
  const { percent, resetsAt } = quota;
  const used = quota.isUsedUp ? words.panel.usedUp : percent !== undefined ? words.panel.used(percent) : words.panel.nearlyUsedUp;
  return resetsAt === undefined ? used : `${used} ${words.panel.resets(clock(resetsAt))}`;
}

function thousands(count: number): string {
  return count < 1_000 ? String(count) : count < 1_000_000 ? `${Math.round(count / 1_000)}k` : `${(count / 1_000_000).toFixed(1)}M`;
}

function Here({ row }: { row: Row | undefined }) {
  const others = Math.max(0, (row?.own.attached ?? 1) - 1);
  return (
    <section class="panel">
      <h2>{words.panel.here}</h2>
      <ul class="files">
        <li><Icon name={isPhone.value ? "phone" : "laptop"} />{words.panel.thisBrowser}</li>
        {others > 0 && <li><Icon name="terminal" />{words.panel.others(others)}</li>}
      </ul>
    </section>
  );
}
