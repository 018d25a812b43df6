import type { DelegationScope, Grant, KeyScope, Role } from "@backplane/contract";

/** Where a row lives, and where a caller acts. A null project is the whole org. */
export interface Scope {
  org_id: string;
  project_id: string | null;
}

/**
 * Who asks, authenticated once at the edge. `grant` is set when the caller is itself an invocation
 * (a delegated token): whatever it starts is never wider.
 */
export interface Caller {
  /** `admin`, `key_…`, `inv_…` (delegated) or `kernel`. */
  actor: string;
  scope: Scope;
  role: Role;
  scopes: readonly KeyScope[];
  admin: boolean;
  /** When the credential itself ends, if it does: what it makes does not outlive it. */
  expires_at?: string;
  delegation?: {
    invocation_id: string;
    scopes: readonly DelegationScope[];
    grant: Grant;
    /** Set when a hook is behind the call: what it starts triggers no further hooks. */
    delivery_id?: string | null;
    /** Of the calling invocation; what it starts is one deeper. */
    depth?: number;
  };
}

export interface Page {
  limit: number;
  /** Opaque: the id of the last row of the page before. */
  after?: string;
}

export interface PageOf<T> {
  items: T[];
  next: string | null;
}
