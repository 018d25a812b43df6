/**
 * Waits until a call has ended. Ctrl-C cancels the call and waits for its record; a second one exits immediately.
 * After `approval_wait_ms` without an answer the call is cancelled, so a script can retry after the timeout without
 * running the call twice.
 */
import { codeOf, type Invocation, isTerminal } from "@backplane/contract";
import { EXIT } from "../../command-line/exit-codes.ts";
import type { CommandContext } from "../../context/context.ts";
import { retryRead } from "../../context/retry-read.ts";
import type { StatusHandle } from "../../terminal/status-line.ts";
import { eventLine } from "./invocation-text.ts";

/** How long to wait for the record of a cancelled call. */
const CANCEL_WAIT_MS = 15_000;

export interface FollowInvocationOptions {
  events: boolean;
  approval_wait_ms?: number;
}

export interface FollowedInvocation {
  invocation: Invocation;
  /** Why this command cancelled the call, if it did. */
  gave_up: "interrupted" | "approval_wait" | null;
}

/** `start` makes the call. A Ctrl-C before its id is known cancels it once the id arrives. */
export async function followInvocation(
  context: CommandContext,
  start: () => Promise<Invocation>,
  options: FollowInvocationOptions,
): Promise<FollowedInvocation> {
  const { io, out } = context;
  const client = context.client();
  const stop = new AbortController();
  const ended = new AbortController();
  const timers: NodeJS.Timeout[] = [];
  let id: string | undefined;
  let gave_up: FollowedInvocation["gave_up"] = null;
  let wait: StatusHandle | undefined;

  const cancel = () => {
    if (id === undefined) return;
    timers.push(setTimeout(() => stop.abort(), CANCEL_WAIT_MS));
    client.invocations.cancel(id).catch((error: unknown) => {
      // The call has already ended; its record will follow.
      if (codeOf(error) !== "invocation.settled") stop.abort();
    });
  };
  const stopListening = io.onSignal(() => {
    if (gave_up === "interrupted") return io.exit(EXIT.interrupted);
    gave_up = "interrupted";
    out.note("Cancelling the call ...");
    cancel();
  });
  const limitApprovalWait = async () => {
    // A call that was approved in time is limited only by the gateway's own deadline, so the state has to be known.
    const latest = await retryRead(() => client.invocations.get(id!), { signal: ended.signal });
    if (latest?.status !== "waiting_approval") return;
    gave_up ??= "approval_wait";
    cancel();
  };
  try {
    const started = await start();
    id = started.id;
    wait = out.status.begin(`Waiting for the result of ${id}`);
    if (isTerminal(started.status)) return { invocation: started, gave_up };
    if (gave_up !== null) cancel();
    if (started.status === "waiting_approval") {
      out.note(`Awaiting approval: backplane approve show ${started.approval_id}`);
      out.note(`Answer: backplane approve allow ${started.approval_id} (or deny)`);
      const { approval_wait_ms } = options;
      if (approval_wait_ms !== undefined)
        timers.push(setTimeout(() => void limitApprovalWait(), approval_wait_ms));
    }
    for await (const item of client.invocations.watch(id, { signal: stop.signal })) {
      if ("settled" in item) return { invocation: item.settled, gave_up };
      if (!options.events) continue;
      out.status.clear();
      io.stderr.write(`${eventLine(item)}\n`);
    }
    return { invocation: await client.invocations.get(id), gave_up };
  } finally {
    ended.abort();
    for (const timer of timers) clearTimeout(timer);
    stopListening();
    wait?.end();
  }
}
