/**
 * The sandbox of one runner. Opening it never fails: a missing part becomes a failed check with a fix, and `launch`
 * then throws sandbox.unavailable. Its status is confirmed by a self-test.
 */
import { BackplaneError } from "@backplane/contract";
import { type ConfinedProcess, type ConfineRequest, launchConfined } from "./launch-confined.ts";
import {
  EMBEDDED,
  findBubblewrap,
  openSandboxParts,
  type SandboxBackend,
  type SandboxOptions,
  type SandboxParts,
} from "./sandbox-parts.ts";
import { runSelfTest } from "./self-test.ts";
import { type SandboxCheck, type SandboxStatus, statusOf } from "./status.ts";

const ATTEMPTS = 3;
const PAUSE_MS = 300;

export interface Sandbox {
  readonly status: SandboxStatus;
  launch(request: ConfineRequest): Promise<ConfinedProcess>;
  close(): Promise<void>;
}

/** A sandbox that passed its self-test, or the checks up to the one that failed. */
interface Attempt {
  parts: SandboxParts | null;
  checks: SandboxCheck[];
  closers: (() => Promise<void>)[];
}

export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { parts, checks, closers } = await openTested(options);
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

/** bwrap is used only if the embedded sandbox cannot be; if both fail, the reason is that of the embedded one. */
async function openTested(options: SandboxOptions): Promise<Attempt> {
  const bubblewrap = findBubblewrap(options);
  // A busy machine can fail one attempt. Without a retry the gateway would refuse calls until it is restarted.
  for (let attempts_left = ATTEMPTS - 1; ; attempts_left--) {
    const embedded = await attempt(options, EMBEDDED);
    if (embedded.parts !== null) return embedded;
    const fallback = bubblewrap === null ? null : await attempt(options, bubblewrap);
    if (fallback !== null && fallback.parts !== null) return fallback;
    if (attempts_left === 0) return embedded;
    options.log.debug(
      { reason: embedded.checks.at(-1)?.message, attempts_left },
      "opening the sandbox failed; retrying",
    );
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}

async function attempt(options: SandboxOptions, backend: SandboxBackend): Promise<Attempt> {
  const checks: SandboxCheck[] = [];
  const closers: (() => Promise<void>)[] = [];
  try {
    const parts = await openSandboxParts(options, backend, checks, closers);
    await runSelfTest(parts, checks);
    return { parts, checks, closers };
  } catch (error) {
    const { message, fix } = error as BackplaneError;
    checks.push({ name: "sandbox", ok: false, message, ...(fix === undefined ? {} : { fix }) });
    for (const close of closers.reverse()) await close().catch(() => {});
    return { parts: null, checks, closers: [] };
  }
}

/** For `backplane doctor`: opens the sandbox, reads its status and closes it. */
export async function readSandboxStatus(options: SandboxOptions): Promise<SandboxStatus> {
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
