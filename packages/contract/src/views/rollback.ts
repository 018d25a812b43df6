/** Which bindings a rollback of their package changes. The gateway decides; clients show the same choice beforehand. */
import type { Binding } from "../schema/index.ts";

/**
 * A rollback ends the rollouts and withdraws the held upgrades in `pending`. If there are none, it restores the
 * previous version of each binding in `upgraded`.
 */
export function selectRollback(bindings: readonly Binding[]): { pending: Binding[]; upgraded: Binding[] } {
  const pending = bindings.filter(
    ({ share_of, rollout, held_upgrade }) =>
      held_upgrade !== undefined || (share_of !== undefined && rollout.traffic_percent > 0),
  );
  // A second rollback would return to the version that the first one left.
  const upgraded = bindings.filter(
    ({ previous, rolled_back, share_of }) =>
      previous !== undefined &&
      previous.undone !== true &&
      rolled_back === undefined &&
      share_of === undefined,
  );
  return { pending, upgraded: pending.length > 0 ? [] : upgraded };
}
