/** Builds the bus, the sessions and the tape, and connects them to the changes of the kernel. */

import { KERNEL_SESSION } from "@backplane/contract";
import type { Changes, KernelDeps } from "@backplane/ports";
import { createBus } from "./bus/bus.ts";
import type { Bus, KernelPort } from "./bus/bus-port.ts";
import { LiveSessions } from "./sessions/live-sessions.ts";
import { createPersister, type Persister } from "./sessions/persister.ts";
import { createSessions, type Sessions } from "./sessions/sessions.ts";
import { createHarnessTape, type HarnessTape } from "./tape/harness-tape.ts";
import { recordBusEvents } from "./tape/record-bus-events.ts";
import { createTurnTape, type TurnTape } from "./tape/turn-tape.ts";

export interface SessionModule {
  bus: Bus;
  port: KernelPort;
  live: LiveSessions;
  persister: Persister;
  sessions: Sessions;
  turn_tape: TurnTape;
  harness_tape: HarnessTape;
}

export function createSessionModule(deps: KernelDeps, changes: Changes): SessionModule {
  const { store, clock, ids, log } = deps;
  const bus = createBus({ clock, ids, log, ...(deps.pause === undefined ? {} : { pause: deps.pause }) });
  const port = bus.kernel();
  const live = new LiveSessions();
  const loss_port = bus.kernel("session-persister");
  const persister = createPersister({
    store,
    clock,
    log,
    onLost: ({ key, source, error }) =>
      void loss_port.tryPublish(
        "plugin.error",
        { name: source, error },
        { session_id: KERNEL_SESSION, scope: key.scope },
      ),
    onTakenOver: (hold) => changes.emit("turn.taken_over", { hold }),
  });
  recordBusEvents(bus.kernel("tape"), live, persister);
  changes.on("config.updated", ({ key, prefix_match_hint, org_id }) => {
    const sent = port.tryPublish(
      "config.updated",
      { key, prefix_match_hint },
      { session_id: KERNEL_SESSION, scope: { org_id, project_id: null } },
    );
    if (sent === null)
      log.error(
        { key },
        "config.updated was not published because the queue of the kernel's session is full",
      );
  });
  return {
    bus,
    port,
    live,
    persister,
    sessions: createSessions({
      store,
      clock,
      ids,
      publish(kind, scope, payload) {
        if (port.tryPublish(kind, payload, { session_id: KERNEL_SESSION, scope }) === null)
          log.warn({ kind }, "a session event was dropped because the queue of the kernel's session is full");
      },
    }),
    turn_tape: createTurnTape({
      store,
      live,
      persister,
      port,
      loop_port: bus.kernel("loop", ["loop"]),
      clock,
      log,
      onSettled: (key, row) => changes.emit("call.ended", { key, row }),
    }),
    harness_tape: createHarnessTape({
      store,
      persister,
      live,
      port,
      harness_port: bus.kernel("harness", ["harness"]),
      ids,
      clock,
      log,
      onSettled: (row) => changes.emit("harness.ended", { row }),
    }),
  };
}
