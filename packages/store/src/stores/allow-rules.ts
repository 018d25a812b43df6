import type { AllowRuleRow, AllowRuleStore, ChangeRecords } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { type CreateAllowRule, findAllowRules, listAllowRules, readAllowRule } from "../ops/allow-rules.ts";
import type { Row } from "../ops/op.ts";
import { encodeRecords } from "./change-records.ts";
import { pageCursor, toPage } from "./page.ts";
import { projectColumn, scopeColumns } from "./scope.ts";

const MAX_RULES = 1_000;

export function createAllowRuleStore(backend: Backend): AllowRuleStore {
  return {
    async create(rule, records) {
      await backend.write("createAllowRule", encodeAllowRule(rule, records));
    },
    async remove(scope, id, records) {
      return await backend.write("removeAllowRule", {
        ...scopeColumns(scope),
        id,
        records: encodeRecords(records),
      });
    },
    async get(scope, id) {
      const row = await backend.read(() => readAllowRule(scope.org_id, projectColumn(scope.project_id), id));
      return row === undefined ? null : decode(row);
    },
    async list(scope, page) {
      const rows = await backend.read(() =>
        listAllowRules([scope.org_id, projectColumn(scope.project_id), pageCursor(page), page.limit + 1]),
      );
      return toPage(rows, page, (row) => row.id as string, decode);
    },
    async listForPackage(scope, package_id) {
      const rows = await backend.read(() =>
        findAllowRules(scope.org_id, projectColumn(scope.project_id), package_id),
      );
      return rows.map(decode);
    },
  };
}

export function encodeAllowRule(rule: AllowRuleRow, records: ChangeRecords): CreateAllowRule {
  const { id, org_id, project_id, package_id } = rule;
  return {
    row: [id, org_id, projectColumn(project_id), package_id, JSON.stringify(rule)],
    org_id,
    max: MAX_RULES,
    records: encodeRecords(records),
  };
}

function decode(row: Row): AllowRuleRow {
  return JSON.parse(row.body as string) as AllowRuleRow;
}
