import type { RetentionStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";

export function createRetentionStore(backend: Backend): RetentionStore {
  return {
    removeJobs: (state, now, keep_ms, limit) =>
      backend.write("sweepJobs", { state, now: backend.selectTime(now), keep_ms, limit }),
    discardOverdue: (queue, lane, error, now, keep_ms, limit) =>
      backend.write("discardOverdueJobs", {
        queue,
        lane,
        error,
        now: backend.selectTime(now),
        keep_ms,
        limit,
      }),
    removeEvents: (now, keep_ms, limit) =>
      backend.write("sweepOutbox", { now: backend.selectTime(now), keep_ms, limit }),
    removeDelegations: (now, keep_ms, limit) =>
      backend.write("sweepDelegations", { now: backend.selectTime(now), keep_ms, limit }),
    removeProgress: (after, id_before, ended_before, limit) =>
      backend.write("sweepProgress", { after, id_before, ended_before, limit }),
  };
}
