/** A grant that allows nothing except the fields of `change`. */
import type { Grant } from "@backplane/contract";

export function noGrant(change: Partial<Grant> = {}): Grant {
  return {
    class: "isolated",
    network: "none",
    allowed_domains: [],
    filesystem: "none",
    mounts: [],
    gateway_api_scopes: [],
    secret_slots: [],
    capabilities: [],
    tools: null,
    ...change,
  };
}
