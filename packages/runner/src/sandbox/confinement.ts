/**
 * Decides whether a request runs in the sandbox or is refused; there is no silent fallback. Only two kinds of requests
 * run as plain processes: a tool that is allowed to run on the host, and a worker if the operator disabled the sandbox.
 * Isolated exports are refused even then.
 */
import { BackplaneError } from "@backplane/contract";
import type { RunnerHealth, RunRequest } from "@backplane/ports";
import { openSandbox, type Sandbox, unavailable } from "./open-sandbox.ts";
import type { SandboxOptions } from "./sandbox-parts.ts";

type ConfinementRequest = Pick<RunRequest, "class"> & { grant: Pick<RunRequest["grant"], "host"> };

/** With neither a sandbox nor a refusal, the request runs as a plain process. */
interface Boundary {
  sandbox: Sandbox | null;
  refusal: BackplaneError | null;
}

export interface Confinement {
  /** Resolves when the self-test of the sandbox has finished; null after that. */
  opening: Promise<void> | null;
  status(): RunnerHealth["sandbox"];
  boundaryFor(request: ConfinementRequest): Boundary;
  close(): Promise<void>;
}

const DISABLED =
  "The sandbox of this gateway is disabled, so isolated exports, builds and install scripts cannot run. Enable it, or let an admin lower the class of an export with `backplane binding set ID --class worker`.";

/** Without options the sandbox is disabled. */
export function createConfinement(options: SandboxOptions | null): Confinement {
  let sandbox: Sandbox | null = null;
  const confinement: Confinement = {
    opening: null,
    status: () => {
      if (options === null) return { enabled: false, available: false, reason: DISABLED };
      const enabled = true;
      // Calls wait for the self-test, so nothing is refused yet.
      if (sandbox === null) return { enabled, available: true, reason: "The sandbox is being tested." };
      const { available, reason, fix } = sandbox.status;
      return { enabled, available, reason: available || fix === null ? reason : `${reason} (fix: ${fix})` };
    },
    boundaryFor: (request) => {
      // The admin allowed it and the tool requests it; the kernel has already refused all other cases.
      if (request.grant.host === true) return { sandbox: null, refusal: null };
      if (options === null && request.class === "worker") return { sandbox: null, refusal: null };
      if (sandbox === null) return refuse(new BackplaneError("sandbox.unavailable", DISABLED));
      return sandbox.status.available ? { sandbox, refusal: null } : refuse(unavailable(sandbox.status));
    },
    close: async () => {
      await confinement.opening;
      await sandbox?.close();
    },
  };
  if (options !== null) {
    confinement.opening = openSandbox(options).then((opened) => {
      sandbox = opened;
      confinement.opening = null;
      const { available, reason, fix } = opened.status;
      if (available) options.log.info({ boundary: reason }, "sandbox is active");
      else
        options.log.warn(
          { reason, fix },
          "sandbox is unavailable: plugins that run as processes are refused",
        );
    });
  }
  return confinement;
}

/** An isolated process serves one call whatever its dialect supports, unless it is a resident server. */
export function chooseLifetime(
  request: Pick<RunRequest, "class">,
  dialect: { lifetime: "pooled" | "call"; resident?: boolean },
): "pooled" | "call" {
  return request.class === "isolated" && dialect.resident !== true ? "call" : dialect.lifetime;
}

function refuse(refusal: BackplaneError): Boundary {
  return { sandbox: null, refusal };
}
