/** Converts scopes to columns and back. */
import type { Scope } from "@backplane/ports";

/** The column is '' for the whole org, because SQL does not compare null like other values. */
export function projectColumn(project_id: string | null): string {
  return project_id ?? "";
}

export function projectOf(column: unknown): string | null {
  return column === "" ? null : (column as string);
}

export function scopeColumns(scope: Scope): { org_id: string; project_id: string } {
  return { org_id: scope.org_id, project_id: projectColumn(scope.project_id) };
}
