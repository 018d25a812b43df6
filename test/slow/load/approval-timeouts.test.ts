import type { KernelTool } from "@backplane/contract";
import { user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { addTool, createTestSession } from "../../../packages/agent/test/loop/test-session.ts";
import { verifies } from "../../support/verifies.ts";

const MANY = 10_000;
const CONCURRENT_CALLS = 1_000;

verifies(
  "approval.timeout",
  "expires 10,000 unanswered approvals and leaves nothing pending",
  async () => {
    let ran = 0;
    const guarded: KernelTool = {
      ...addTool,
      requires_approval: true,
      run(args, call) {
        ran++;
        return addTool.run(args, call);
      },
    };
    const fixture = await createTestSession({
      tools: [guarded],
      host: { approval_timeout_ms: 200, max_waiting: CONCURRENT_CALLS },
    });
    const initial_timers = fixture.clock.timers;
    const codes = new Set<string | undefined>();
    for (let done = 0; done < MANY; done += CONCURRENT_CALLS) {
      const calls = Array.from({ length: CONCURRENT_CALLS }, () =>
        fixture.call({ export_id: "add", input: { a: 1, b: 2 } }),
      );
      for (const { error } of await Promise.all(calls)) codes.add(error?.code);
    }
    expect([...codes]).toEqual(["approval.expired"]);
    expect(ran).toBe(0);
    const { items } = await fixture.kernel.approvals.list(user, { status: "pending" }, { limit: 10 });
    expect(items).toEqual([]);
    expect(await fixture.kernel.health()).toMatchObject({ invocations: { waiting_approval: 0, running: 0 } });
    // A timer of the last commit may still be running; leaked timers of approvals would remain.
    await expect.poll(() => fixture.clock.timers).toBeLessThanOrEqual(initial_timers + 2);
  },
  120_000,
);
