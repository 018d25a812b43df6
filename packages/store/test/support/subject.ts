import type { Store } from "@backplane/ports";

/** The store under test. */
export interface Subject {
  store: Store;
  /** Runs SQL directly on the database. */
  tamper(text: string): Promise<void>;
  /** Whether reading a row that was changed this way is an error. */
  row_checks: boolean;
}

let orgs = 0;

/** Cases share a database; each uses its own org. */
export function freshOrg(): { org_id: string; project_id: string } {
  orgs++;
  return { org_id: `org_t${orgs}`, project_id: "proj_default" };
}
