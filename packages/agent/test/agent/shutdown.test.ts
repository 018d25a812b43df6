import type { BusEvent, KernelPlugin } from "@backplane/contract";
import type { Caller } from "@backplane/ports";
import { createTestKernel, user } from "@backplane/test-kit/kernel/test-kernel";
import { expect } from "vitest";
import { verifies } from "../../../../test/support/verifies.ts";

const watcher: Caller = { ...user, scopes: ["sessions:write"] };

verifies(
  "fanout.heartbeat",
  "publishes the end of every connection before a shutdown stops the plugins",
  async () => {
    const detached: unknown[] = [];
    const kinds: string[] = [];
    const ended: string[] = [];
    // The events of one session are delivered one after the other, so a slow plugin delays the second event.
    const follower: KernelPlugin = {
      name: "follower",
      version: "1.0.0",
      category: "adapter",
      subscriptions: () => ["session.context.detached"],
      async onEvent({ payload }: BusEvent) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        detached.push(payload);
      },
    };
    const { kernel } = await createTestKernel({ plugins: [follower] });
    const attach = async () => {
      const { connection_id } = await kernel.fanout.attach(
        watcher,
        { session_id: "s1" },
        {
          adapter_id: "test",
          since_entry: null,
          send({ event }) {
            kinds.push(event.kind);
            return 0;
          },
          ended: (reason) => void ended.push(reason),
        },
      );
      return connection_id;
    };
    const connections = [await attach(), await attach(), await attach()];
    await kernel.stop(1_000);
    expect(detached).toEqual(
      connections.map((connection_id) => ({ session_id: "s1", connection_id, reason: "shutdown" })),
    );
    expect(ended).toEqual(["shutdown", "shutdown", "shutdown"]);
    // The connections stay open until the plugins have stopped.
    expect(kinds.filter((kind) => kind === "kernel.shutdown")).toHaveLength(3);
    expect(kinds).not.toContain("session.context.detached");
    await expect(attach()).rejects.toMatchObject({ code: "gateway_stopping" });
  },
);
