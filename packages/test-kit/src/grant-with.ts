import type { Grant } from "@backplane/contract";

/** Returns a grant that allows only what `change` sets. */
export function grantWith(change: Partial<Grant> = {}): Grant {
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
