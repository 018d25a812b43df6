/** A context like the gateway's, with a grant that allows only the permissions that the test names. */
import type { Grant, InvocationContext, JsonObject } from "@backplane/contract";

export interface ContextOptions {
  config?: JsonObject;
  /** Secret values by slot. The grant names the same slots. */
  secrets?: Record<string, string>;
  grant?: Partial<Grant>;
  /** Milliseconds from now to the deadline. */
  timeout_ms?: number;
  gateway?: InvocationContext["gateway"];
  /** Ids and the scratch folder, for tests that depend on them. */
  context?: Partial<InvocationContext>;
}

export const DEFAULT_TIMEOUT_MS = 30_000;

export function testContext(invocation_id: string, options: ContextOptions = {}): InvocationContext {
  const secrets = options.secrets ?? {};
  const gateway = options.gateway ?? { base_url: "http://127.0.0.1:7420", scopes: [] };
  return {
    invocation_id,
    trace_id: `tr_${invocation_id}`,
    org_id: "org_local",
    project_id: "proj_default",
    deadline_at: new Date(Date.now() + (options.timeout_ms ?? DEFAULT_TIMEOUT_MS)).toISOString(),
    gateway,
    config: options.config ?? {},
    secrets,
    grant: {
      class: "worker",
      network: "none",
      allowed_domains: [],
      filesystem: "none",
      mounts: [],
      gateway_api_scopes: gateway.scopes,
      secret_slots: Object.keys(secrets),
      capabilities: [],
      tools: null,
      ...options.grant,
    },
    ...options.context,
  };
}
