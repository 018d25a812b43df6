import type { DelegationScope, Grant, KeyScope, Role } from "@backplane/contract";

/** The tenant of a row or of a caller. A null project means the whole org. */
export interface Scope {
  org_id: string;
  project_id: string | null;
}

/** The session, chain and run that a call or event belongs to, and its trace. */
export interface TraceIds {
  session_id?: string;
  chain_id?: string;
  run_id?: string;
  trace_id?: string;
}

/**
 * An authenticated caller. `delegation` is set for a delegated token, whose caller is itself an invocation: calls that
 * it starts never get a wider grant.
 */
export interface Caller {
  /** `admin`, `key_…`, `inv_…` (delegated), `plugin:NAME` or `kernel`. */
  actor: string;
  scope: Scope;
  role: Role;
  /** The permissions of the credential, such as `config:read`; unrelated to `scope`. */
  scopes: readonly KeyScope[];
  /** Whether the credential is the admin token or has the scope `admin`; independent of `role`. */
  admin: boolean;
  /** Expiry of the credential, if any; credentials that the caller creates must not outlive it. */
  expires_at?: string;
  /**
   * The tools that the caller's key lists: patterns, or profiles (`@NAME`). Other tools are deferred unless they are
   * pinned. If absent, the key defers no tools, but the token budget of the policy may.
   */
  tools?: readonly string[];
  /**
   * How the request or message reached the gateway: `api`, `ws`, `mcp`, or the plugin that published the message or
   * serves the route. The gateway sets it, never the client. Work that the caller starts inherits it. Absent for the
   * gateway's own calls.
   */
  channel?: string;
  delegation?: {
    invocation_id: string;
    scopes: readonly DelegationScope[];
    grant: Grant;
    /** Set when a hook started the call: calls that it starts trigger no further hooks. */
    delivery_id?: string | null;
    /** Depth of the calling invocation; calls that it starts are one deeper. */
    depth?: number;
    /** The ids of the calling invocation. Calls that it starts inherit them. */
    ids?: TraceIds;
    /** The harness execution that the call belongs to; its limits apply to everything that the call starts. */
    execution_id?: string | null;
  };
}

export interface Page {
  limit: number;
  /** Opaque cursor: the id of the last row of the previous page. */
  after?: string;
}

export interface PageOf<T> {
  items: T[];
  next: string | null;
}
