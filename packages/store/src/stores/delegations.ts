import type { DelegationStore, NewDelegation } from "@backplane/ports";
import type { Backend } from "../backend/backend.ts";
import { readDelegation } from "../ops/invocation-reads.ts";
import type { SqlValue } from "../ops/op.ts";
import { projectColumn, projectOf } from "./scope.ts";

export function createDelegationStore(backend: Backend): DelegationStore {
  return {
    async findByHash(token_hash) {
      const row = await backend.read(() => readDelegation(token_hash));
      if (row === undefined) return null;
      return {
        token_hash,
        invocation_id: row.invocation_id as string,
        scope: { org_id: row.org_id as string, project_id: projectOf(row.project_id) },
        scopes: JSON.parse(row.scopes as string) as NewDelegation["scopes"],
        expires_at: row.expires_at as number,
      };
    },
  };
}

export function encodeDelegation(delegation: NewDelegation | undefined): SqlValue[] | null {
  if (delegation === undefined) return null;
  return [
    delegation.token_hash,
    delegation.invocation_id,
    delegation.scope.org_id,
    projectColumn(delegation.scope.project_id),
    JSON.stringify(delegation.scopes),
    delegation.expires_at,
  ];
}
