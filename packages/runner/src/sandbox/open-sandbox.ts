/**
 * The sandbox of one runner. Opening it never fails: whatever is missing is a check with its fix, and without all
 * that matters `launch` refuses with sandbox.unavailable. What it says is in force has been tried once.
 */
import { BackplaneError } from "@backplane/contract";
import { type Confined, type ConfineRequest, launchConfined } from "./launch-confined.ts";
import { makeSandbox, type SandboxOptions, type SandboxParts } from "./make-sandbox.ts";
import { tryOut } from "./self-test.ts";
import { type SandboxCheck, type SandboxStatus, statusOf } from "./status.ts";

const TRIALS = 3;
const PAUSE_MS = 300;

export interface Sandbox {
  readonly status: SandboxStatus;
  launch(request: ConfineRequest): Promise<Confined>;
  close(): Promise<void>;
}

export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  let checks: SandboxCheck[] = [];
  let closers: (() => Promise<void>)[] = [];
  let made: SandboxParts | null = null;
  // A busy machine, or another gateway that builds the same files, may hold one trial up; a gateway that gave up at
  // once would refuse for all its life.
  for (let left = TRIALS - 1; ; left--) {
    checks = [];
    closers = [];
    made = null;
    try {
      made = await makeSandbox(options, checks, closers);
      await tryOut(made, checks);
      break;
    } catch (error) {
      const { message, fix } = error as BackplaneError;
      checks.push({ name: "sandbox", ok: false, message, ...(fix === undefined ? {} : { fix }) });
      if (left === 0) break;
      options.log.debug({ reason: message, left }, "a trial of the sandbox failed; trying again");
      for (const close of closers.reverse()) await close().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
  const status = statusOf(checks);
  return {
    status,
    launch: (request) => {
      if (!status.available || made === null) throw unavailable(status);
      return launchConfined(made, request);
    },
    close: async () => {
      for (const close of closers.splice(0).reverse()) {
        await close().catch((error: Error) =>
          options.log.warn({ reason: error.message }, "a part of the sandbox could not be removed"),
        );
      }
    },
  };
}

/** For `doctor`: opens, looks, closes. */
export async function sandboxStatus(options: SandboxOptions): Promise<SandboxStatus> {
  const sandbox = await openSandbox(options);
  await sandbox.close();
  return sandbox.status;
}

const ASK_DOCTOR = "backplane doctor says what is missing.";

export function unavailable(status: SandboxStatus): BackplaneError {
  return new BackplaneError(
    "sandbox.unavailable",
    // In its words too: a record keeps them and nothing else.
    `There is no sandbox on this machine: ${status.reason.replace(/\.$/, "")}. Fix: ${status.fix ?? ASK_DOCTOR}`,
    status.fix === null ? {} : { fix: status.fix },
  );
}
