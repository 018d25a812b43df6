/**
 * Who runs confined: everybody, or the call is refused; never a silent downgrade. Only where the operator has switched
 * the sandbox off is a worker a plain process, and isolated is refused there all the same.
 */
import { BackplaneError } from "@backplane/contract";
import type { RunnerHealth, RunOrder } from "@backplane/ports";
import type { SandboxOptions } from "./make-sandbox.ts";
import { openSandbox, type Sandbox, unavailable } from "./open-sandbox.ts";

type ConfinedOrder = Pick<RunOrder, "class"> & { grant: Pick<RunOrder["grant"], "host"> };

/** Without a sandbox and without a refusal it is a plain process. */
interface Boundary {
  sandbox: Sandbox | null;
  refusal: BackplaneError | null;
}

export interface Confinement {
  /** Settles when the sandbox has been tried; null once it has. */
  opening: Promise<void> | null;
  status(): RunnerHealth["sandbox"];
  of(order: ConfinedOrder): Boundary;
  close(): Promise<void>;
}

const SWITCHED_OFF =
  "This gateway runs without a sandbox, so an isolated export does not run. Switch it on, or let an admin lower its class with `backplane binding set ID --class worker`.";

/** Without options there is no sandbox. */
export function createConfinement(options: SandboxOptions | null): Confinement {
  let sandbox: Sandbox | null = null;
  const confinement: Confinement = {
    opening: null,
    status: () => {
      if (options === null) return { enabled: false, available: false, reason: SWITCHED_OFF };
      const enabled = true;
      // Calls wait for the trial, so there is nothing to refuse yet.
      if (sandbox === null) return { enabled, available: true, reason: "The sandbox is being tried out." };
      const { available, reason, fix } = sandbox.status;
      return { enabled, available, reason: available || fix === null ? reason : `${reason} (fix: ${fix})` };
    },
    of: (order) => {
      // The admin allows it and the tool asks for it; the door has refused every other case.
      if (order.grant.host === true) return { sandbox: null, refusal: null };
      if (options === null && order.class === "worker") return { sandbox: null, refusal: null };
      if (sandbox === null) return refuse(new BackplaneError("sandbox.unavailable", SWITCHED_OFF));
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
      if (available) options.log.info({ boundary: reason }, "the sandbox is in force");
      else options.log.warn({ reason, fix }, "there is no sandbox: plugins that are processes are refused");
    });
  }
  return confinement;
}

/** An isolated process is used once, whatever its dialect could do, unless it is a server that lives on. */
export function lifetimeOf(
  order: Pick<RunOrder, "class">,
  dialect: { lifetime: "pooled" | "call"; resident?: boolean },
): "pooled" | "call" {
  return order.class === "isolated" && dialect.resident !== true ? "call" : dialect.lifetime;
}

function refuse(refusal: BackplaneError): Boundary {
  return { sandbox: null, refusal };
}
