/**
 * The sandbox of one runner. Opening it never fails: a missing part becomes a failed check with a fix, and `launch`
 * then throws sandbox.unavailable. Its status is confirmed by a self-test.
 */
import { BackplaneError } from "@backplane/contract";
import { type Confined, type ConfineRequest, launchConfined } from "./launch-confined.ts";
import { makeSandbox, type SandboxOptions, type SandboxParts } from "./make-sandbox.ts";
import { selfTest } from "./self-test.ts";
import { type SandboxCheck, type SandboxStatus, statusOf } from "./status.ts";

const ATTEMPTS = 3;
const PAUSE_MS = 300;

export interface Sandbox {
  readonly status: SandboxStatus;
  launch(request: ConfineRequest): Promise<Confined>;
  close(): Promise<void>;
}

export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  let checks: SandboxCheck[] = [];
  let closers: (() => Promise<void>)[] = [];
  let parts: SandboxParts | null = null;
  // A busy machine, or another gateway that builds the same files, can fail one attempt. Without a retry the
  // gateway would refuse calls until it is restarted.
  for (let left = ATTEMPTS - 1; ; left--) {
    checks = [];
    closers = [];
    parts = null;
    try {
      parts = await makeSandbox(options, checks, closers);
      await selfTest(parts, checks);
      break;
    } catch (error) {
      const { message, fix } = error as BackplaneError;
      checks.push({ name: "sandbox", ok: false, message, ...(fix === undefined ? {} : { fix }) });
      if (left === 0) break;
      options.log.debug({ reason: message, left }, "sandbox self-test failed; retrying");
      for (const close of closers.reverse()) await close().catch(() => {});
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
  const status = statusOf(checks);
  return {
    status,
    launch: (request) => {
      if (!status.available || parts === null) throw unavailable(status);
      return launchConfined(parts, request);
    },
    close: async () => {
      for (const close of closers.splice(0).reverse()) {
        await close().catch((error: Error) =>
          options.log.warn({ reason: error.message }, "part of the sandbox could not be removed"),
        );
      }
    },
  };
}

/** For `backplane doctor`: opens the sandbox, reads its status and closes it. */
export async function sandboxStatus(options: SandboxOptions): Promise<SandboxStatus> {
  const sandbox = await openSandbox(options);
  await sandbox.close();
  return sandbox.status;
}

const RUN_DOCTOR = "Run `backplane doctor` to see what is missing.";

export function unavailable(status: SandboxStatus): BackplaneError {
  return new BackplaneError(
    "sandbox.unavailable",
    // The message includes the fix, because a record keeps the message only.
    `The sandbox is unavailable on this machine: ${status.reason.replace(/\.$/, "")}. Fix: ${status.fix ?? RUN_DOCTOR}`,
    status.fix === null ? {} : { fix: status.fix },
  );
}
