/**
 * Detects changes to the audit log that the gateway did not make. The hash chain shows edited and missing entries.
 * A chain that was truncated or recomputed is detected by marks outside the database: the anchor and, if
 * configured, the export. A mark advances only over verified entries, and never after tampering was found, so that
 * every later start finds it again.
 */

import type { AuditReport } from "@backplane/contract";
import type { AuditMark, KernelDeps } from "@backplane/ports";

interface AuditWatch {
  /**
   * Compares the marks and verifies the first entries after the last check. Then verifies the whole log in the
   * background.
   */
  start(): Promise<void>;
  /** Advances the marks to the end of the log. */
  stop(): Promise<void>;
  /** Verifies the whole log from the first entry. */
  verify(): Promise<AuditReport>;
}

type AuditBreak = NonNullable<AuditReport["broken"]>;

const STEP_ENTRIES = 500;
/** At most this many entries after the last check are verified before the gateway is ready. */
const FIRST_ENTRIES = 1_000;
const MARK_DELAY_MS = 250;
const LOG_START: AuditMark = { seq: 0, hash: "" };

export function createAuditWatch(deps: KernelDeps): AuditWatch {
  const { clock, log } = deps;
  const { audit } = deps.store;
  const anchor = deps.audit?.anchor;
  const sink = deps.audit?.export;
  let reported: AuditBreak | null = null;
  let checked: AuditMark = LOG_START;
  let stopped = false;
  let timer: { stop(): void } | null = null;
  let advancing: Promise<void> = Promise.resolve();
  let background: Promise<void> = Promise.resolve();
  let unsubscribe = () => {};

  function report(broken: AuditBreak | null): void {
    if (broken === null || reported !== null) return;
    reported = broken;
    log.error({ seq: broken.seq, reason: broken.reason, fix: broken.fix }, "the audit log was changed");
  }

  /**
   * A mark holds the number and the hash of an entry. A missing entry or another hash shows that the log was changed.
   */
  async function compareMark(mark: AuditMark | "damaged" | null, name: string): Promise<AuditBreak | null> {
    if (mark === "damaged")
      return createBreak(0, `${name} is damaged, so a truncated log would not be noticed`);
    if (mark === null || mark.seq === 0) return null;
    const hash = await audit.hashAt(mark.seq);
    if (hash === mark.hash) return null;
    return createBreak(
      mark.seq,
      hash === null
        ? `entry ${mark.seq}, which ${name} refers to, is missing: the end of the log was removed`
        : `entry ${mark.seq} differs from the one that ${name} refers to: the log was rewritten`,
    );
  }

  async function compareMarks(): Promise<AuditBreak | null> {
    return (
      (await compareMark(anchor?.read() ?? null, anchor?.name ?? "")) ??
      (await compareMark(sink?.last() ?? null, sink?.name ?? ""))
    );
  }

  /** Verifies from a mark up to the head, at most `limit` entries. */
  async function verifyFrom(
    from: AuditMark,
    limit: number,
  ): Promise<{ broken: AuditBreak | null; reached: AuditMark }> {
    const head = await audit.head();
    let reached = from;
    const end = Math.min(head.seq, from.seq + limit);
    while (reached.seq < end && !stopped) {
      const step = await audit.verifyStep(reached, Math.min(STEP_ENTRIES, end - reached.seq));
      if (step.broken !== null) {
        const { seq, gone } = step.broken;
        return {
          broken: createBreak(seq, gone ? `entry ${seq} is missing` : `entry ${seq} was changed`),
          reached,
        };
      }
      reached = step.reached;
      await new Promise<void>((resolve) => {
        (deps.pause ?? queueMicrotask)(resolve);
      });
    }
    if (reached.seq > head.seq || (reached.seq === head.seq && reached.hash !== head.hash)) {
      return {
        broken: createBreak(head.seq, `the end of the log does not match its head (entry ${head.seq})`),
        reached,
      };
    }
    return { broken: null, reached };
  }

  /** Advances the marks; concurrent calls run one after the other. */
  function advanceMarks(): Promise<void> {
    advancing = advancing.then(advanceOnce).catch((error: unknown) => {
      log.warn({ err: error }, "could not advance the anchor of the audit log");
    });
    return advancing;
  }

  async function advanceOnce(): Promise<void> {
    if (reported !== null || anchor === undefined) return;
    const mark = anchor.read();
    report(await compareMark(mark, anchor.name));
    const last = sink?.last() ?? null;
    report(await compareMark(last, sink?.name ?? ""));
    if (reported !== null || mark === "damaged") return;
    const { broken, reached } = await verifyFrom(mark ?? checked, Number.MAX_SAFE_INTEGER);
    report(broken);
    if (reported !== null) return;
    if (sink !== undefined && last !== "damaged") await exportAfter(last?.seq ?? 0, reached.seq);
    if (reached.seq !== mark?.seq) anchor.write({ ...reached, at: clock.now(), checked });
  }

  async function exportAfter(after: number, to: number): Promise<void> {
    for (let seq = after; seq < to; ) {
      const entries = (await audit.after(seq, STEP_ENTRIES)).filter((entry) => entry.seq <= to);
      if (entries.length === 0) return;
      sink!.append(entries);
      seq = entries.at(-1)!.seq;
    }
  }

  async function verifyAll(): Promise<{ broken: AuditBreak | null; reached: AuditMark }> {
    const marks = await compareMarks();
    const verified = await verifyFrom(LOG_START, Number.MAX_SAFE_INTEGER);
    return { broken: verified.broken ?? marks, reached: verified.reached };
  }

  return {
    async start() {
      const mark = anchor?.read() ?? null;
      const head = await audit.head();
      if (anchor !== undefined && mark === null && head.seq > 0) {
        log.warn({ file: anchor.name, entries: head.seq }, "the audit log has no anchor yet; creating one");
      }
      report(await compareMarks());
      const since = mark === null || mark === "damaged" ? LOG_START : mark.checked;
      report((await compareMark(since, "the last check")) ?? (await verifyFrom(since, FIRST_ENTRIES)).broken);
      background = (async () => {
        const { broken, reached } = await verifyAll();
        if (stopped) return;
        report(broken);
        if (broken === null) checked = reached;
        await advanceMarks();
      })().catch((error: unknown) => log.warn({ err: error }, "could not verify the audit log"));
      unsubscribe = audit.onAppended(() => {
        timer ??= clock.after(MARK_DELAY_MS, () => {
          timer = null;
          void advanceMarks();
        });
      });
    },
    async stop() {
      unsubscribe();
      timer?.stop();
      stopped = true;
      await background;
      stopped = false;
      await advanceMarks();
      stopped = true;
    },
    async verify() {
      const { broken, reached } = await verifyAll();
      report(broken);
      const mark = anchor?.read() ?? null;
      const last = sink?.last() ?? null;
      return {
        status: broken === null && reported === null ? "ok" : "broken",
        entries: reached.seq,
        hash: reached.hash,
        anchor:
          mark === null || mark === "damaged" ? null : { seq: mark.seq, at: new Date(mark.at).toISOString() },
        export: last === null || last === "damaged" ? null : { seq: last.seq },
        broken: broken ?? reported,
      };
    },
  };
}

function createBreak(seq: number, reason: string): AuditBreak {
  return {
    seq,
    reason,
    fix: "Compare the log with a backup or its export to see what was changed; docs/operating.md explains how to continue.",
  };
}
