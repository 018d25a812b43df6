/**
 * A test session with the bundled offline provider and strategy, a function that sends messages, and tools and
 * strategies for tests.
 */

import type {
  AgentLoopState,
  BusEvent,
  Decision,
  Entry,
  KernelPlugin,
  KernelTool,
  Run,
} from "@backplane/contract";
import { plugin as echo } from "@backplane/plugin-llm-echo";
import { plugin as react } from "@backplane/plugin-strategy-react";
import type { Store } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import {
  createTestKernel,
  seedTestKernel,
  type TestKernel,
  type TestKernelOptions,
  user,
} from "@backplane/test-kit/kernel/test-kernel";
import { toolPlugin } from "@backplane/test-kit/kernel/tool-plugin";

/** A tool that answers when the test releases it. */
export function gatedTool(name: string): {
  tool: KernelTool;
  /** One function per call; each lets its call return. */
  releases: (() => void)[];
  aborted: string[];
  /** The number of calls so far. */
  started: number;
} {
  const gate = { releases: [] as (() => void)[], aborted: [] as string[], started: 0 };
  const tool: KernelTool = {
    name,
    description: "Waits.",
    parameters: { type: "object", properties: { n: { type: "number" } } },
    effect_class: "read_only",
    async run({ n }, { signal }) {
      gate.started++;
      signal.addEventListener("abort", () => gate.aborted.push(JSON.stringify(n)));
      await new Promise<void>((resolve) => gate.releases.push(resolve));
      return toolOk(`done ${JSON.stringify(n)}`);
    },
  };
  return Object.assign(gate, { tool });
}

/** A strategy plugin whose decisions come from `decide`. */
export function strategyPlugin(
  strategyId: string,
  decide: (state: AgentLoopState) => Decision,
): KernelPlugin {
  return {
    name: `strategy-${strategyId}`,
    version: "1.0.0",
    category: "strategy",
    strategyId,
    subscriptions: () => ["strategy.decide.request"],
    async onEvent(event, ctx) {
      const decision = decide(event.payload.state as unknown as AgentLoopState);
      await ctx.emit("strategy.decide.response", { ...decision, request_id: event.id } as never, event);
    },
  };
}

export const addTool: KernelTool = {
  name: "add",
  description: "Adds two numbers.",
  parameters: {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"],
    additionalProperties: false,
  },
  effect_class: "read_only",
  run: ({ a, b }) => toolOk(String(Number(a) + Number(b))),
};

export interface TestSession extends TestKernel {
  /** Sends a message and waits for the end of the turn. */
  say(text: string, session_id?: string): Promise<Run>;
  tape(session_id?: string): Promise<Entry[]>;
  events: BusEvent[];
}

type TestSessionOptions = TestKernelOptions & { tools?: KernelTool[]; provider?: KernelPlugin };

export function createTestSession(
  options: TestSessionOptions & { file?: string } = {},
): Promise<TestSession> {
  return createTestSessionWith(
    (base) => createTestKernel({ ...base, ...(options.file && { file: options.file }) }),
    options,
  );
}

export function createTestSessionIn(
  store: Store,
  file: string,
  options: TestSessionOptions = {},
): Promise<TestSession> {
  return createTestSessionWith((base) => seedTestKernel(store, file, base), options);
}

async function createTestSessionWith(
  createKernel: (base: TestKernelOptions) => Promise<TestKernel>,
  options: TestSessionOptions,
): Promise<TestSession> {
  const { tools = [addTool], plugins = [], provider = echo, ...rest } = options;
  const events: BusEvent[] = [];
  const spy: KernelPlugin = {
    name: "spy",
    version: "1.0.0",
    category: "adapter",
    subscriptions: () => ["*"],
    onEvent: (event) => void events.push(event),
  };
  const fixture = await createKernel({
    ...rest,
    plugins: [provider, react, toolPlugin("numbers", ...tools), spy, ...plugins],
  });
  const ref = (session_id: string) => ({ session_id });
  return {
    ...fixture,
    events,
    async say(text, session_id = "s1") {
      const { run_id } = await fixture.kernel.sessions.sendMessage(user, ref(session_id), { text });
      for (;;) {
        const run = await fixture.kernel.runs.get(user, run_id);
        if (run.status !== "running") return run;
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    },
    tape: (session_id = "s1") => fixture.kernel.sessions.listEntries(user, ref(session_id), 0, 10_000),
  };
}

/** Attaches a watcher to the session `s1`; the list grows with the id of each entry that the watcher gets. */
export async function watchEntries({ kernel }: TestSession): Promise<number[]> {
  const entry_ids: number[] = [];
  await kernel.fanout.attach(
    user,
    { session_id: "s1" },
    {
      since_entry: null,
      adapter_id: "test",
      send({ entry_id }) {
        if (entry_id !== null) entry_ids.push(entry_id);
        return 0;
      },
      ended() {},
    },
  );
  return entry_ids;
}
