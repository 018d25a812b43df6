/**
 * Attacks from inside a real sandbox, through the real runner: one runner, one call per attack. The client's sockets
 * are opened in the network of the sandbox; only their data comes from this process, over a mounted folder.
 */
import { chmodSync, copyFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { EgressRecord } from "@backplane/contract";
import type { RunOutcome } from "@backplane/ports";
import { publicOnly } from "../../packages/runner/src/egress/destinations/address.ts";
import { createConfinedTestRunner } from "../../packages/runner/test/support/confined-runner.ts";
import { PUBLIC, TestClient, type TestEgressOptions } from "../../packages/runner/test/support/egress.ts";
import { FIXTURES, type RequestChange } from "../../packages/runner/test/support/request.ts";
import type { TestRunner } from "../../packages/runner/test/support/runner.ts";
import { createEmptyFolder, createPackageFolder } from "../../packages/runner/test/support/sandbox.ts";
import { ALLOWED, type Attacker, createAttacker } from "./egress-upstream.ts";

const PROGRAMS = fileURLToPath(new URL("./programs/", import.meta.url));

export interface SandboxedAttacks {
  test_runner: TestRunner;
  /** Runs `attack` inside the sandbox and returns the egress record of its call. */
  attack: (
    options: TestEgressOptions,
    attack: (attacker: Attacker) => Promise<unknown>,
  ) => Promise<EgressRecord | null>;
  /** Runs a program of the package or of the system inside the sandbox. */
  run: (program: string[], change?: RequestChange) => Promise<ProgramResult>;
}

interface ProgramResult {
  stdout: string;
  stderr: string;
  code: number;
  egress: EgressRecord | null;
}

export async function createSandboxedAttacks(
  port: number,
  programs: readonly string[] = [],
  gateway?: { base_url: string },
): Promise<SandboxedAttacks> {
  const folder = await createPackageFolder();
  for (const name of ["bridge.mjs", ...programs]) copyFileSync(join(PROGRAMS, name), join(folder, name));
  copyFileSync(join(FIXTURES, "frames.mjs"), join(folder, "frames.mjs"));
  let current: TestEgressOptions = gateway === undefined ? {} : { gateway };
  const test_runner = createConfinedTestRunner({
    folder,
    egress: {
      forbidden: (address) => (address === PUBLIC ? null : publicOnly(address)),
      gateway: () => (current.gateway === undefined ? null : { certificate: null, ...current.gateway }),
      resolve: async (name) => (await current.resolve?.(name)) ?? [...(current.names?.[name] ?? [PUBLIC])],
    },
  });
  const entrypoint = ["node", "./bridge.mjs"];
  const isolated = { class: "isolated", entrypoint, timeout_ms: 60_000 } as const;

  return {
    test_runner,
    async attack(options, attack) {
      current = options;
      const shared = createEmptyFolder();
      chmodSync(shared, 0o777);
      const grant = {
        network: options.network ?? ("egress" as const),
        allowed_domains: [...(options.domains ?? ALLOWED)],
        mounts: [{ source: shared, target: "/bridge", writable: true }],
      };
      const ended = test_runner.run({ ...isolated, grant, input: { socket: "/bridge/inside" } });
      const dial = await connectBridge(join(shared, "inside"), ended);
      const attacker = createAttacker(
        port,
        () => new TestClient(dial({ host: "127.0.0.1", port: 3128 })),
        async () => new TestClient(dial({ host: "127.64.0.1", port: 80 })),
      );
      try {
        await attack(attacker);
      } finally {
        dial({ end: true });
      }
      return requireSuccess(await ended).egress;
    },
    async run(program, change = {}) {
      const outcome = requireSuccess(
        await test_runner.run({ ...isolated, ...change, input: { run: program } }),
      );
      const { structured_output } = outcome.result as unknown as {
        structured_output: Omit<ProgramResult, "egress">;
      };
      return { ...structured_output, egress: outcome.egress };
    },
  };
}

function requireSuccess(outcome: RunOutcome): RunOutcome {
  if (outcome.status !== "succeeded") throw new Error(JSON.stringify(outcome));
  return outcome;
}

/** Waits until the bridge inside the sandbox listens and returns a function that connects through it. */
async function connectBridge(path: string, ended: Promise<RunOutcome>): Promise<(where: object) => Socket> {
  let ended_early: RunOutcome | null = null;
  void ended.then((outcome) => {
    ended_early = outcome;
  });
  const dial = (where: object) => {
    const socket = connect({ path, allowHalfOpen: true });
    socket.on("error", () => {});
    socket.write(`${JSON.stringify(where)}\n`);
    return socket;
  };
  for (;;) {
    const listening = await new Promise<boolean>((resolve) => {
      const probe = connect({ path });
      probe.once("connect", () => resolve(true)).once("error", () => resolve(false));
      probe.once("connect", () => probe.destroy());
    });
    if (listening) return dial;
    if (ended_early !== null) throw new Error(`the bridge did not start: ${JSON.stringify(ended_early)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
