/**
 * In scope columns, project_id '' means the whole org. A value has its own column where it is searched, sorted or
 * updated; the rest of a row is one JSON text, which keeps an insert cheap.
 */
import type { Migration } from "./migration.ts";

export const foundation: Migration = {
  version: 1,
  name: "foundation",
  statements: [
    `create table packages (
      id {id} primary key, org_id {id} not null, package_id {id} not null, version {id} not null,
      digest {id} not null, body text not null,
      unique (org_id, package_id, version))`,
    `create index packages_list on packages (org_id, id)`,
    `create index packages_digest on packages (digest)`,

    `create table bindings (
      binding_id {id} primary key, org_id {id} not null, project_id {id} not null,
      package_id {id} not null, package_version {id} not null, export_id {id} not null,
      kind {id} not null, status {id} not null, generation {int} not null, body text not null,
      unique (org_id, project_id, package_id, package_version, export_id),
      foreign key (org_id, package_id, package_version) references packages (org_id, package_id, version))`,
    `create index bindings_list on bindings (org_id, binding_id)`,
    `create index bindings_export on bindings (org_id, export_id)`,
    `create index bindings_kind on bindings (org_id, kind, status)`,
    `create index bindings_package on bindings (org_id, package_id, package_version)`,
    `create table binding_secrets (
      org_id {id} not null, ref {id} not null, binding_id {id} not null,
      primary key (org_id, ref, binding_id)) {clustered}`,
    `create index binding_secrets_binding on binding_secrets (binding_id)`,

    // An index costs every call about a microsecond, so one list index covers all cheap filters.
    `create table invocations (
      id {id} primary key, org_id {id} not null, project_id {id} not null, status {id} not null,
      export_id {id} not null, binding_id {id} not null, session_id {id}, node_id {id} not null,
      fence {int} not null, retry_count {int} not null, started_at text, body text not null, outcome text)`,
    `create index invocations_list on invocations (org_id, project_id, id, status, export_id, binding_id)`,
    `create index invocations_session on invocations (org_id, session_id, id) where session_id is not null`,
    `create index invocations_running on invocations (id) where status = 'running'`,
    `create index invocations_waiting on invocations (id) where status = 'waiting_approval'`,
    `create table invocation_events (
      invocation_id {id} not null, seq {int} not null, at text not null, event text not null,
      primary key (invocation_id, seq)) {clustered}`,
    `create table delegations (
      token_hash {id} primary key, invocation_id {id} not null, org_id {id} not null,
      project_id {id} not null, scopes text not null, expires_at {int} not null)`,
    `create index delegations_invocation on delegations (invocation_id)`,

    `create table approvals (
      id {id} primary key, org_id {id} not null, project_id {id} not null, invocation_id {id} not null,
      status {id} not null, body text not null, resolution text)`,
    `create index approvals_list on approvals (org_id, id)`,
    `create index approvals_project on approvals (org_id, project_id, id)`,
    `create index approvals_status on approvals (org_id, status, id)`,
    `create index approvals_invocation on approvals (invocation_id)`,

    `create table secrets (
      org_id {id} not null, name {id} not null, ciphertext text not null, last4 text not null,
      version {int} not null, created_at text not null, updated_at text not null,
      primary key (org_id, name))`,
    `create table api_keys (
      id {id} primary key, org_id {id} not null, project_id {id} not null, token_hash {id} not null unique,
      revoked_at text, body text not null)`,
    `create index api_keys_list on api_keys (org_id, id)`,
    `create table idempotency (
      org_id {id} not null, project_id {id} not null, key {id} not null, digest {id} not null,
      claimed_at {int} not null, expires_at {int} not null, status {int}, body text,
      primary key (org_id, project_id, key))`,
    `create index idempotency_expiry on idempotency (expires_at)`,

    `create table audit_head (one {int} primary key, seq {int} not null, hash text not null)`,
    `insert into audit_head (one, seq, hash) values (1, 0, '')`,
    `create table audit (
      seq {int} primary key, id {id} not null, at {int} not null, org_id {id} not null,
      project_id {id} not null, actor text not null, action {id} not null, subject text not null,
      details text not null, hash text not null)`,
    `create index audit_list on audit (org_id, seq)`,
    `create index audit_project on audit (org_id, project_id, seq)`,
    `create index audit_action on audit (org_id, action, seq)`,

    // PostgreSQL transactions commit in a different order than they insert, so `seq` is assigned later, to committed rows,
    // by one reader at a time. With the one writer of SQLite `pos` already has the order of commits.
    `create table outbox (
      pos {serial}, seq {int}, id {id} not null, type {id} not null, org_id {id} not null,
      project_id {id} not null, occurred_at {int} not null, subject_kind text not null,
      subject_id {id} not null, summary text not null, from_hook {int} not null)`,
    { postgres: `create unique index outbox_seq on outbox (seq)` },
    { postgres: `create index outbox_unnumbered on outbox (pos) where seq is null` },
    { postgres: `create index outbox_org on outbox (org_id, seq)` },
    { sqlite: `create index outbox_org on outbox (org_id, pos)` },
    { postgres: `create table outbox_head (one bigint primary key, seq bigint not null)` },
    { postgres: `insert into outbox_head (one, seq) values (1, 0)` },
    `create table cursors (consumer {id} primary key, seq {int} not null)`,

    // due_at is null while a job cannot be claimed: behind another job of its group, done, or dead. open_group is null
    // once a job is finished. Both keep their index as small as the number of open jobs.
    `create table jobs (
      pos {serial}, id {id} not null unique, queue {id} not null, group_name {id}, open_group {id},
      state {id} not null, run_at {int} not null, due_at {int}, max_attempts {int} not null,
      last_attempt {int} not null, attempt {int} not null, fence {int} not null, node_id {id},
      last_error text, payload text not null)`,
    `create index jobs_due on jobs (queue, due_at) where due_at is not null`,
    `create index jobs_group on jobs (queue, open_group, pos) where open_group is not null`,
    `create index jobs_dead on jobs (queue, pos) where state = 'dead'`,
    `create table leases (
      name {id} primary key, holder {id} not null, fence {int} not null, expires_at {int} not null)`,
  ],
};
