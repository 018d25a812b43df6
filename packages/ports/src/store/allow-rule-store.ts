import type { AllowRule, Role } from "@backplane/contract";
import type { Page, PageOf, Scope } from "../scope/scope.ts";
import type { ChangeRecords } from "./change-records.ts";

/** A rule ends with the authority of its creator, so whether it has ended is not stored. */
export interface AllowRuleRow extends Omit<AllowRule, "ended" | "suspended"> {
  /** The role of the creator when it made the rule. */
  creator_role: Role;
}

/** A rule can also be created by ApprovalStore.resolve, in the transaction of the answer. */
export interface AllowRuleStore {
  /** Throws allow_rule.too_many. */
  create(rule: AllowRuleRow, records: ChangeRecords): Promise<void>;
  /** Finds a rule of the project or of its org; for the whole org, a rule of any project. */
  get(scope: Scope, id: string): Promise<AllowRuleRow | null>;
  list(scope: Scope, page: Page): Promise<PageOf<AllowRuleRow>>;
  /** The rules for calls to this package in the scope, never from a cache. */
  listForPackage(scope: Scope, package_id: string): Promise<AllowRuleRow[]>;
  /** A project removes only its own rules. Resolves to false if there was none. */
  remove(scope: Scope, id: string, records: ChangeRecords): Promise<boolean>;
}
