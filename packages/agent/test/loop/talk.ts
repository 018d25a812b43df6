/** A house with the bundled offline provider and strategy, a few tools, and what one needs to talk to it. */

import type { BusEvent, Entry, KernelPlugin, KernelTool, Run } from "@backplane/contract";
import { plugin as echo } from "@backplane/plugin-llm-echo";
import { plugin as react } from "@backplane/plugin-strategy-react";
import type { Store } from "@backplane/ports";
import { toolOk } from "@backplane/sdk/kernel";
import { furnish, type House, type HouseOptions, openHouse, user } from "@backplane/test-kit/kernel/house";
import { toolPlugin } from "@backplane/test-kit/kernel/tool-plugin";

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

export interface Talk extends House {
  /** Says something and waits for the end of the turn. */
  say(text: string, session_id?: string): Promise<Run>;
  tape(session_id?: string): Promise<Entry[]>;
  events: BusEvent[];
}

type TalkOptions = HouseOptions & { tools?: KernelTool[]; provider?: KernelPlugin };

export function openTalk(options: TalkOptions & { file?: string } = {}): Promise<Talk> {
  return talk(
    (furniture) => openHouse({ ...furniture, ...(options.file && { file: options.file }) }),
    options,
  );
}

export function talkIn(store: Store, file: string, options: TalkOptions = {}): Promise<Talk> {
  return talk((furniture) => furnish(store, file, furniture), options);
}

async function talk(open: (furniture: HouseOptions) => Promise<House>, options: TalkOptions): Promise<Talk> {
  const { tools = [addTool], plugins = [], provider = echo, ...rest } = options;
  const events: BusEvent[] = [];
  const spy: KernelPlugin = {
    name: "spy",
    version: "1.0.0",
    category: "adapter",
    subscriptions: () => ["*"],
    onEvent: (event) => void events.push(event),
  };
  const house = await open({
    ...rest,
    plugins: [provider, react, toolPlugin("numbers", ...tools), spy, ...plugins],
  });
  const ref = (session_id: string) => ({ session_id });
  return {
    ...house,
    events,
    async say(text, session_id = "s1") {
      const { run_id } = await house.kernel.sessions.message(user, ref(session_id), { text });
      for (;;) {
        const run = await house.kernel.runs.get(user, run_id);
        if (run.status !== "running") return run;
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
    },
    tape: (session_id = "s1") => house.kernel.sessions.entries(user, ref(session_id), 0, 10_000),
  };
}
