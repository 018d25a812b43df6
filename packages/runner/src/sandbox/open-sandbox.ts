/**
 * The sandbox of one runner. Opening it never fails: whatever is missing is a check with its fix, and without all
 * that matters `launch` refuses with sandbox.unavailable. What it says is in force has been tried once.
 */
import { BackplaneError } from "@backplane/contract";
import { type Confined, type ConfineRequest, launchConfined } from "./launch-confined.ts";
import { makeSandbox, type SandboxOptions, type SandboxParts } from "./make-sandbox.ts";
import { type SandboxCheck, type SandboxStatus, statusOf } from "./status.ts";
import { tryOut } from "./try-out.ts";

export interface Sandbox {
  readonly status: SandboxStatus;
  launch(request: ConfineRequest): Promise<Confined>;
  close(): Promise<void>;
}

export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const checks: SandboxCheck[] = [];
  const closers: (() => Promise<void>)[] = [];
  let made: SandboxParts | null = null;
  try {
    made = await makeSandbox(options, checks, closers);
    await tryOut(made, checks);
  } catch (error) {
    const { message, fix } = error as BackplaneError;
    checks.push({ name: "sandbox", ok: false, message, ...(fix === undefined ? {} : { fix }) });
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

export function unavailable(status: SandboxStatus): BackplaneError {
  return new BackplaneError(
    "sandbox.unavailable",
    `There is no sandbox on this machine: ${status.reason}`,
    status.fix === null ? {} : { fix: status.fix },
  );
}
