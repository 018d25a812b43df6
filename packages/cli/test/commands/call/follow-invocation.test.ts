/** The end of the wait for an approval, when the state of the call cannot be read at first. */
import { BackplaneError, type Invocation, type InvocationStatus } from "@backplane/contract";
import { expect, test } from "vitest";
import { followInvocation } from "../../../src/commands/call/follow-invocation.ts";
import type { CommandContext } from "../../../src/context/context.ts";
import { createOutput } from "../../../src/terminal/output.ts";
import { captureIo } from "../../support/capture-io.ts";

const invocation = (status: InvocationStatus) =>
  ({ id: "inv_1", approval_id: "appr_1", status }) as unknown as Invocation;

/** Follows a call and waits 1 ms for its approval. Reads of its state return `reads`, one after another. */
async function follow(reads: (Invocation | BackplaneError)[]) {
  const io = captureIo();
  const settled = Promise.withResolvers<Invocation>();
  let cancelled = false;
  const client = {
    invocations: {
      async get() {
        const next = reads.shift()!;
        // The call succeeds soon after its state was read, unless it was cancelled.
        if (reads.length === 0) setTimeout(() => settled.resolve(invocation("succeeded")), 20);
        if (next instanceof BackplaneError) throw next;
        return next;
      },
      async cancel() {
        cancelled = true;
        settled.resolve(invocation("cancelled"));
      },
      async *watch() {
        yield { settled: await settled.promise };
      },
    },
  };
  const context = { io, out: createOutput(io, {}), client: () => client } as unknown as CommandContext;
  const start = async () => invocation("waiting_approval");
  const { gave_up } = await followInvocation(context, start, { events: false, approval_wait_ms: 1 });
  return { cancelled, gave_up };
}

const unreachable = new BackplaneError("daemon.unreachable");

test("does not cancel a call that was approved while its state could not be read", async () => {
  expect(await follow([unreachable, invocation("running")])).toEqual({ cancelled: false, gave_up: null });
});

test("cancels a call that still awaits approval once its state can be read", async () => {
  expect(await follow([unreachable, invocation("waiting_approval")])).toEqual({
    cancelled: true,
    gave_up: "approval_wait",
  });
});

test("does not cancel a call whose state the credential may not read", async () => {
  expect(await follow([new BackplaneError("auth.scope")])).toEqual({ cancelled: false, gave_up: null });
});
