/**
 * Who runs confined. Isolated: always, or it is refused; never a silent downgrade. Worker: confined wherever the
 * sandbox is there, and otherwise as before. There is no way out of the sandbox yet, neither to the network nor to the
 * gateway: an isolated export that is granted one is refused, a worker keeps its plain process.
 */
import { BackplaneError } from "@backplane/contract";
import type { RunOrder } from "@backplane/kernel/ports";
import type { SandboxOptions } from "./make-sandbox.ts";
import { openSandbox, type Sandbox, unavailable } from "./open-sandbox.ts";

type ConfinedOrder = Pick<RunOrder, "class" | "grant" | "package">;

/** Without a sandbox and without a refusal it is a plain process. */
interface Boundary {
  sandbox: Sandbox | null;
  refusal: BackplaneError | null;
}

export interface Confinement {
  /** Settles when the sandbox has been tried; null once it has. */
  opening: Promise<void> | null;
  status(): { available: boolean; reason: string };
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
      if (options === null) return { available: false, reason: SWITCHED_OFF };
      // Calls wait for the trial, so there is nothing to refuse yet.
      if (sandbox === null) return { available: true, reason: "The sandbox is being tried out." };
      const { available, reason, fix } = sandbox.status;
      return { available, reason: available || fix === null ? reason : `${reason} (fix: ${fix})` };
    },
    of: (order) => {
      const usable = sandbox?.status.available ?? false;
      const { network, gateway_api_scopes } = order.grant;
      // Its delegated token is for the gateway's own address, and there is no way out to that yet either.
      const offline = network === "none" && gateway_api_scopes.length === 0;
      if (order.class === "worker") return { sandbox: usable && offline ? sandbox : null, refusal: null };
      if (sandbox === null) return refuse(new BackplaneError("sandbox.unavailable", SWITCHED_OFF));
      if (!usable) return refuse(unavailable(sandbox.status));
      return offline ? { sandbox, refusal: null } : refuse(noWayOut(order));
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
      else options.log.warn({ reason, fix }, "there is no sandbox: isolated exports are refused");
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

function noWayOut({ package: { package_id } }: ConfinedOrder): BackplaneError {
  return new BackplaneError(
    "sandbox.unavailable",
    `${package_id} is granted network egress or scopes of the gateway, and the sandbox of this build has no way out to the network.`,
    {
      fix: "Take both from it with the permissions of its binding, or let an admin lower its class to worker.",
    },
  );
}
