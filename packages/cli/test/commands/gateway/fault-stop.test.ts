/** An uncaught error in a gateway whose orderly stop hangs: a timer exits the process. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Gateway } from "@backplane/gateway";
import { afterEach, expect, vi } from "vitest";
import { verifies } from "../../../../../test/support/verifies.ts";
import { EXIT, runProgram } from "../../../src/index.ts";
import { captureIo } from "../../support/capture-io.ts";
import { waitForOutput } from "../../support/wait-for-output.ts";

const fixture = vi.hoisted(() => ({ steps: [] as string[] }));

vi.mock("@backplane/gateway", async (load) => {
  const never = new Promise<never>(() => {});
  const gateway: Gateway = {
    url: "http://127.0.0.1:1",
    home: "/nonexistent",
    admin_token_file: "/nonexistent/admin.token",
    loginUrl: () => "http://127.0.0.1:1/login",
    reportFault: (source, error) => void fixture.steps.push(`fault ${source}: ${(error as Error).message}`),
    stop(reason) {
      fixture.steps.push(`stop: ${reason}`);
      return never;
    },
    closed: never,
  };
  return { ...(await load<object>()), startGateway: async () => gateway };
});

afterEach(() => {
  vi.useRealTimers();
});

verifies(
  "plug.kernel-error",
  "publishes an uncaught error before the gateway stops, and exits with 1 if the stop hangs for 5 s",
  async () => {
    const home = mkdtempSync(join(tmpdir(), "backplane-fault-"));
    try {
      const io = captureIo({ env: { BACKPLANE_HOME: home } });
      void runProgram(["up", "--json", "--port", "0"], io);
      await waitForOutput(io.out, /\n/);
      vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
      io.crash(new Error("out of nowhere"));
      await vi.advanceTimersByTimeAsync(4_999);
      expect(fixture.steps).toEqual(["fault kernel: out of nowhere", "stop: fault"]);
      expect(io.exits).toEqual([]);
      await vi.advanceTimersByTimeAsync(1);
      expect(io.exits).toEqual([EXIT.failed]);
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  },
);
