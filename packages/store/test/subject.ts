import type { Store } from "@backplane/ports";

/** What a contract case works on. */
export interface Subject {
  store: Store;
  /** Runs SQL behind the store's back. */
  tamper(text: string): Promise<void>;
  /** Reading a row that was changed so is an error. */
  row_checks: boolean;
}

let orgs = 0;

/** Cases share a database; each lives in an org of its own. */
export function freshOrg(): { org_id: string; project_id: string } {
  orgs++;
  return { org_id: `org_t${orgs}`, project_id: "proj_default" };
}
