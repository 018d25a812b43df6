/**
 * Waits for a call's terminal record. Ctrl-C cancels the call and waits for that to be recorded; a second one
 * ends at once. A wait for an approval is said once, and given up after `approval_wait_ms`: the call is cancelled
 * then, so a script that saw the timeout may call again without running it twice.
 */
import { codeOf, type Invocation, isTerminal } from "@backplane/contract";
import { EXIT } from "../../command-line/exit-codes.ts";
import type { Context } from "../../context/context.ts";
import { eventLine } from "./invocation-text.ts";

/** How long a cancelled call may take to be recorded before we stop looking. */
const CANCEL_WAIT_MS = 15_000;

export interface FollowOptions {
  events: boolean;
  approval_wait_ms?: number;
}

export interface Followed {
  invocation: Invocation;
  /** Why this side ended the wait, if it did. */
  gave_up: "interrupted" | "approval_wait" | null;
}

/** `start` makes the call, so that a Ctrl-C before its id is known still cancels it. */
export async function followInvocation(
  context: Context,
  start: () => Promise<Invocation>,
  options: FollowOptions,
): Promise<Followed> {
  const { io, out } = context;
  const client = context.client();
  const stop = new AbortController();
  const timers: NodeJS.Timeout[] = [];
  let id: string | undefined;
  let gave_up: Followed["gave_up"] = null;

  const cancel = () => {
    if (id === undefined) return;
    timers.push(setTimeout(() => stop.abort(), CANCEL_WAIT_MS));
    client.invocations.cancel(id).catch((error: unknown) => {
      // It ended by itself in the meantime: its record is on the way.
      if (codeOf(error) !== "invocation.settled") stop.abort();
    });
  };
  const silence = io.onSignal(() => {
    if (gave_up === "interrupted") return io.exit(EXIT.interrupted);
    gave_up = "interrupted";
    out.note("Cancelling the call ...");
    cancel();
  });
  const limitApprovalWait = async () => {
    if (id === undefined || !(await stillWaits(context, id))) return;
    gave_up ??= "approval_wait";
    cancel();
  };
  try {
    const started = await start();
    id = started.id;
    if (isTerminal(started.status)) return { invocation: started, gave_up };
    if (gave_up !== null) cancel();
    if (started.status === "waiting_approval") {
      out.note(`Waits for a person: backplane approve show ${started.approval_id}`);
      out.note(`Answer with: backplane approve allow ${started.approval_id} (or deny)`);
      const { approval_wait_ms } = options;
      if (approval_wait_ms !== undefined)
        timers.push(setTimeout(() => void limitApprovalWait(), approval_wait_ms));
    }
    for await (const item of client.invocations.watch(id, { signal: stop.signal })) {
      if ("settled" in item) return { invocation: item.settled, gave_up };
      if (options.events) io.stderr.write(`${eventLine(item)}\n`);
    }
    return { invocation: await client.invocations.get(id), gave_up };
  } finally {
    for (const timer of timers) clearTimeout(timer);
    silence();
  }
}

/** A call that was answered in time runs under the gateway's own deadline. */
async function stillWaits(context: Context, id: string): Promise<boolean> {
  const read = context.client().invocations.get(id);
  const now = await read.catch(() => null);
  return now === null || now.status === "waiting_approval";
}
