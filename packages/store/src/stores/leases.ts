import type { LeaseStore } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";

export function createLeaseStore(backend: Backend): LeaseStore {
  return {
    acquire: (name, holder, now, ttl_ms) =>
      backend.write("acquireLease", { name, holder, now: backend.selectTime(now), ttl_ms }),
    acquireSlot: (name, max, holder, now, ttl_ms) =>
      backend.write("acquireSlot", { name, max, holder, now: backend.selectTime(now), ttl_ms }),
    renew: (names, holder, now, ttl_ms) =>
      backend.write("renewLeases", { names, holder, now: backend.selectTime(now), ttl_ms }),
    release: (name, holder) => backend.write("releaseLease", { name, holder }),
  };
}
