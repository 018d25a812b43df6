import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type ProcessRun, startPlugin } from "@backplane/sdk/testing";
import { readManifest } from "@backplane/supply";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

const folder = fileURLToPath(new URL("..", import.meta.url));
const manifest = readManifest(readFileSync(`${folder}/vai-plugin.toml`, "utf8"));

/** By default dash counts bytes and bash counts characters, so both are tested where both are installed. */
const shells = [["sh"], ["bash", "--posix"]].filter(([shell]) => existsSync(`/bin/${shell}`));

const settled = (id: string, summary = {}) =>
  ({ type: "invocation.settled", subject: { kind: "invocation", id }, summary }) as const;

describe.each(shells.map((shell) => [...shell, ...manifest.runtime.entrypoint.slice(1)]))(
  "%s",
  (...entrypoint) => {
    let run: ProcessRun;
    beforeEach(async () => {
      run = await startPlugin(entrypoint, manifest, { cwd: folder });
    });
    afterEach(async () => {
      run.close();
      await run.ended;
    });

    test("writes one line per event and acknowledges it", async () => {
      const outcome = await run.deliver("notify", settled("inv_1", { status: "failed" }));
      expect(outcome.status).toBe("ack");
      expect(outcome.events).toEqual([{ type: "progress", message: "invocation.settled inv_1: failed" }]);
      run.close();
      expect(await run.ended).toEqual({ code: 0, signal: null });
      expect(run.stderr()).toBe("invocation.settled inv_1: failed\n");
    });

    test("passes any text through unchanged and executes none of it", async () => {
      const task = '"; $(touch oops) `id` \\ %s %d \n\t{"type":"shutdown"} žluťoučký 🐎';
      const event = {
        type: "run.completed",
        subject: { kind: "run", id: "run_1" },
        summary: { task },
      } as const;
      const outcome = await run.deliver("notify", event, { config: { prefix: "[ž]" } });
      expect(outcome.events).toEqual([{ type: "progress", message: `[ž] run.completed run_1: ${task}` }]);
    });

    test("answers fifty concurrent deliveries, each with its own id", async () => {
      const ids = Array.from({ length: 50 }, (_, i) => `inv_${i}`);
      const outcomes = await Promise.all(ids.map((id) => run.deliver("notify", settled(id))));
      expect(outcomes.map(({ events }) => events[0]?.message)).toEqual(
        ids.map((id) => `invocation.settled ${id}`),
      );
      expect(run.violations).toEqual([]);
    });

    test("ignores a cancel that arrives after the answer", async () => {
      const stop = new AbortController();
      const outcome = await run.deliver("notify", settled("inv_1"), {
        signal: stop.signal,
        onEvent: () => stop.abort(),
      });
      expect(outcome.status).toBe("ack");
      expect((await run.deliver("notify", settled("inv_2"))).status).toBe("ack");
    });

    test("fails with a message for an unknown export", async () => {
      expect(await run.invoke("notify")).toMatchObject({
        status: "failed",
        text: "This plugin has only the hook notify.",
      });
    });

    test("reads a large event completely", async () => {
      const summary = { status: "ok", filler: "é".repeat(50_000) };
      const outcome = await run.deliver("notify", settled("inv_1", summary));
      expect(outcome.events[0]?.message).toBe("invocation.settled inv_1: ok");
    });

    test("exits when the host closes stdin", async () => {
      run.hangUp();
      expect(await run.ended).toEqual({ code: 0, signal: null });
    });
  },
);
