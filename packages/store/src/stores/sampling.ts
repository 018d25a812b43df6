import type { SamplingStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";

export function createSamplingStore(backend: Backend): SamplingStore {
  return {
    countUse: (org_id, binding_id, count, window_ms, now) =>
      backend.write("countSamplingUse", {
        org_id,
        binding_id,
        count,
        window_ms,
        now: backend.selectTime(now),
      }),
  };
}
