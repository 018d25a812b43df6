/** Folders on the gateway's machine whose tools are offered. A person reviews the files before trusting a folder. */
import type { WorkspaceFolder, WorkspaceReview } from "@backplane/contract";
import { Button, Checkbox, Group, Modal, Radio, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { workspaceQueries } from "../../api/settings.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { type Column, DataTable } from "../../parts/lists/data-table.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { EmptyView } from "../../parts/notices/empty-view.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import parts from "../../parts/styles/parts.module.css";
import { bytesText } from "../../parts/text/bytes-text.ts";
import { Badge, type Tone } from "../../parts/values/badge.tsx";
import { CodeBlock } from "../../parts/values/json-view.tsx";
import { Time } from "../../parts/values/time.tsx";

export function TrustedFolders() {
  const query = useQuery(workspaceQueries.list(useClient()));
  /** The folder whose files are reviewed; an empty path for a new one. */
  const [reviewing, setReviewing] = useState<{ path: string; kind: WorkspaceFolder["kind"] } | null>(null);
  const [removing, setRemoving] = useState<WorkspaceFolder | null>(null);
  const columns = useMemo(() => folderColumns(setReviewing, setRemoving), []);
  const add = () => setReviewing({ path: "", kind: "workspace" });
  return (
    <Card
      title="Trusted folders"
      flush
      actions={
        <Button size="xs" leftSection={<Icon name="plus" size={14} />} onClick={add}>
          Trust a folder
        </Button>
      }
    >
      {query.isPending && <ListSkeleton />}
      {query.isError && query.data === undefined && (
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      )}
      {query.data?.length === 0 && (
        <EmptyView
          icon="terminal"
          command="backplane workspace trust DIR"
          action={<Button onClick={add}>Trust a folder</Button>}
        >
          No folder is trusted. The tool files of a trusted folder are offered as tools.
        </EmptyView>
      )}
      {query.data !== undefined && query.data.length > 0 && (
        <DataTable label="Trusted folders" columns={columns} rows={query.data} rowKey={({ id }) => id} />
      )}
      {reviewing !== null && <ReviewDialog {...reviewing} onClose={() => setReviewing(null)} />}
      {removing !== null && <UntrustDialog folder={removing} onClose={() => setRemoving(null)} />}
    </Card>
  );
}

const STATES: Record<WorkspaceFolder["state"], { tone: Tone; label: string }> = {
  loaded: { tone: "good", label: "Loaded" },
  changed: { tone: "warn", label: "Changed, needs review" },
  missing: { tone: "bad", label: "Missing" },
};

function folderColumns(
  onReview: (folder: WorkspaceFolder) => void,
  onRemove: (folder: WorkspaceFolder) => void,
): readonly Column<WorkspaceFolder>[] {
  return [
    {
      header: "Folder",
      cell: ({ path, errors }) => (
        <>
          <code>{path}</code>
          {Object.entries(errors).map(([file, reason]) => (
            <span key={file} className={parts.rowSub}>
              {file}: {reason}
            </span>
          ))}
        </>
      ),
    },
    { header: "Contains", cell: ({ kind }) => (kind === "plugin" ? "A plugin" : "Tool files") },
    { header: "Edits", cell: ({ watch }) => (watch ? "Loaded on save" : "Reviewed first") },
    {
      header: "State",
      cell: ({ state }) => (
        <Badge tone={STATES[state].tone} icon={state === "loaded" ? "check" : "alert"}>
          {STATES[state].label}
        </Badge>
      ),
    },
    {
      header: "Trusted",
      cell: ({ trusted_at, trusted_by }) => (
        <>
          <Time at={trusted_at} /> by {trusted_by}
        </>
      ),
    },
    {
      header: "Action",
      numeric: true,
      cell: (folder) => (
        <Group gap={4} justify="flex-end" wrap="nowrap">
          <Button size="compact-sm" variant="default" onClick={() => onReview(folder)}>
            Review
          </Button>
          <Button size="compact-sm" variant="default" onClick={() => onRemove(folder)}>
            Revoke
          </Button>
        </Group>
      ),
    },
  ];
}

interface ReviewDialogProps {
  path: string;
  kind: WorkspaceFolder["kind"];
  onClose: () => void;
}

/** Only the files that were shown are trusted; files that have changed since are refused. */
function ReviewDialog({ path: initial_path, kind: initial_kind, onClose }: ReviewDialogProps) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [path, setPath] = useState(initial_path);
  const [kind, setKind] = useState(initial_kind);
  const [watch, setWatch] = useState(false);
  const review = useMutation({ mutationFn: () => client.workspaces.review(path, kind) });
  const trust = useMutation({
    mutationFn: ({ digest }: WorkspaceReview) => client.workspaces.trust({ path, kind, watch, digest }),
    onSuccess: () => {
      toast.show({ tone: "good", title: `${path} is trusted.` });
      onClose();
    },
    onSettled: () =>
      Promise.all(
        ["workspaces", "packages", "bindings", "catalog"].map((noun) =>
          queries.invalidateQueries({ queryKey: [noun] }),
        ),
      ),
  });
  const error = review.error ?? trust.error;
  return (
    <Modal
      opened
      onClose={onClose}
      title="Trust a folder"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className={layout.stack}>
        <TextInput
          label="Folder"
          description="An absolute path on the gateway's machine."
          data-autofocus
          disabled={initial_path !== ""}
          value={path}
          onChange={({ currentTarget }) => {
            setPath(currentTarget.value);
            review.reset();
          }}
        />
        <Radio.Group
          label="Content of the folder"
          value={kind}
          onChange={(next) => {
            setKind(next as WorkspaceFolder["kind"]);
            review.reset();
          }}
        >
          <div className={layout.tight}>
            <Radio value="workspace" label="Tool files in its tools folder" />
            <Radio value="plugin" label="A plugin that is being developed" />
          </div>
        </Radio.Group>
        <Checkbox
          label="Trust later edits as well, and load them when they are saved"
          checked={watch}
          onChange={({ currentTarget }) => setWatch(currentTarget.checked)}
        />
        {error !== null && <ErrorView error={error} />}
        {review.data !== undefined && <ReviewedFiles review={review.data} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Cancel
          </Button>
          {review.data === undefined ? (
            <Button disabled={path === ""} loading={review.isPending} onClick={() => review.mutate()}>
              Review the files
            </Button>
          ) : (
            <Button loading={trust.isPending} onClick={() => trust.mutate(review.data)}>
              Trust these files
            </Button>
          )}
        </Group>
      </div>
    </Modal>
  );
}

function ReviewedFiles({ review: { files, changes } }: { review: WorkspaceReview }) {
  return (
    <div className={layout.tight}>
      <h3 className={layout.subtitle}>{files.length} files would be trusted</h3>
      <ul className={layout.plainList}>
        {files.map(({ path, size }) => (
          <li key={path} className={layout.between}>
            <code>{path}</code>
            <span className={layout.dimmed}>{bytesText(size)}</span>
          </li>
        ))}
      </ul>
      {changes
        .filter(({ text }) => text !== null)
        .map(({ path, change, text }) => (
          <div key={path} className={layout.tight}>
            <h4 className={layout.subtitle}>
              {path} ({change})
            </h4>
            <CodeBlock text={text ?? ""} label={`Changes to ${path}`} />
          </div>
        ))}
    </div>
  );
}

function UntrustDialog({ folder: { id, path }, onClose }: { folder: WorkspaceFolder; onClose: () => void }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const untrust = useMutation({
    mutationFn: () => client.workspaces.untrust(id),
    onSuccess: () => toast.show({ tone: "good", title: `${path} is no longer trusted.` }),
    onError: toast.fail,
    onSettled: () => {
      onClose();
      return Promise.all(
        ["workspaces", "packages", "bindings", "catalog"].map((noun) =>
          queries.invalidateQueries({ queryKey: [noun] }),
        ),
      );
    },
  });
  return (
    <Confirm
      opened
      danger
      title={`Revoke the trust in ${path}?`}
      action="Revoke"
      busy={untrust.isPending}
      onConfirm={() => untrust.mutate()}
      onClose={onClose}
    >
      <p>The tools of this folder are no longer offered. The files stay where they are.</p>
    </Confirm>
  );
}
