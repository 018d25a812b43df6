/** Administers one session: its metadata, compactions, pinned entries, handoff, fork and reset. */
import { codeOf, type JsonObject, type Session } from "@backplane/contract";
import { Button, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useClient, useServices } from "../../api/services.ts";
import { refreshSessions } from "../../api/session-admin.ts";
import { type SessionAddress, sessionQueries } from "../../api/sessions.ts";
import { Confirm } from "../../parts/actions/confirm.tsx";
import { useToast } from "../../parts/actions/toast.tsx";
import { useUnsavedEdit } from "../../parts/forms/draft.ts";
import { JsonEditor } from "../../parts/forms/schema-form/schema-form.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { PageHeader } from "../../parts/layout/page-header.tsx";
import { ListSkeleton } from "../../parts/lists/list-skeleton.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { SessionCompactions } from "./session-compactions.tsx";
import { SessionPins } from "./session-pins.tsx";

export function SessionAdminPage() {
  const { id } = useParams({ from: "/session-admin/$id" });
  const { workspace = "default" } = useSearch({ from: "/session-admin/$id" });
  const address = useMemo(() => ({ session_id: id, workspace }), [id, workspace]);
  const query = useQuery(sessionQueries.detail(useClient(), address));
  if (query.data === undefined)
    return query.isError ? (
      <>
        <PageHeader title={codeOf(query.error) === "session.not_found" ? "No such session" : "Session"} />
        <ErrorView error={query.error} onRetry={() => void query.refetch()} />
      </>
    ) : (
      <ListSkeleton />
    );
  return <SessionAdmin key={`${workspace} ${id}`} session={query.data} address={address} />;
}

function SessionAdmin({ session, address }: { session: Session; address: SessionAddress }) {
  const { session_id, workspace } = address;
  const { title } = session.metadata;
  const search = workspace === "default" ? {} : { workspace };
  return (
    <>
      <PageHeader
        title={`Administer ${typeof title === "string" ? title : session_id}`}
        lead="What the model sees of the conversation, what it must keep, and where it continues. The records are kept."
        actions={
          <>
            <InterruptButton address={address} />
            <Button
              component={Link}
              to="/sessions/$id"
              params={{ id: session_id } as never}
              search={search as never}
              variant="default"
            >
              Show the conversation
            </Button>
          </>
        }
      />
      <div className={layout.stack}>
        <SessionCompactions session={session} address={address} />
        <SessionPins session={session} address={address} />
        <div className={layout.pair}>
          <Handoff address={address} />
          <Fork address={address} />
        </div>
        <Metadata session={session} address={address} />
        <Reset address={address} />
      </div>
    </>
  );
}

function InterruptButton({ address: { session_id, workspace } }: { address: SessionAddress }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const interrupt = useMutation({
    mutationFn: () => client.sessions.interrupt(session_id, { workspace }),
    onSuccess: (interrupted) =>
      toast.show({
        tone: "good",
        title: interrupted ? "The running turn was ended." : "No turn was running.",
      }),
    onError: toast.fail,
    onSettled: () => refreshSessions(queries),
  });
  return (
    <Button
      variant="default"
      leftSection={<Icon name="pause" size={16} />}
      loading={interrupt.isPending}
      onClick={() => interrupt.mutate()}
    >
      End the running turn
    </Button>
  );
}

/**
 * Sends only the keys that the person changed, a deleted one as null. The gateway merges them, so keys that a plugin
 * changed in the meantime are kept.
 */
function Metadata({ session, address }: { session: Session; address: SessionAddress }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const draft = useUnsavedEdit<JsonObject>(session.metadata);
  const save = useMutation({
    mutationFn: () =>
      client.sessions.patch(address.session_id, findChanges(draft.base, draft.value), {
        workspace: address.workspace,
      }),
    onSuccess: async () => {
      toast.show({ tone: "good", title: "The metadata is saved." });
      await refreshSessions(queries);
      draft.discard();
    },
    onError: () => refreshSessions(queries),
  });
  return (
    <Card
      title="Metadata"
      actions={
        <Button
          size="xs"
          disabled={!draft.changed}
          loading={save.isPending}
          onClick={() => save.mutate()}
          aria-label="Save the metadata"
        >
          Save
        </Button>
      }
    >
      <div className={layout.tight}>
        <p className={layout.dimmed}>
          The gateway uses the keys title and strategy. All other keys are yours.
        </p>
        <JsonEditor
          label="Metadata"
          value={draft.value}
          onChange={(next) => draft.edit(next as JsonObject)}
          disabled={false}
        />
        {save.error !== null && <ErrorView error={save.error} />}
      </div>
    </Card>
  );
}

export function findChanges(before: JsonObject, after: JsonObject): JsonObject {
  const removed = Object.keys(before).filter((key) => !(key in after));
  const changed = Object.entries(after).filter(
    ([key, value]) => JSON.stringify(value) !== JSON.stringify(before[key]),
  );
  return Object.fromEntries([...removed.map((key) => [key, null] as const), ...changed]);
}

function Handoff({ address: { session_id, workspace } }: { address: SessionAddress }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const [name, setName] = useState("");
  const [summary, setSummary] = useState("");
  const handoff = useMutation({
    mutationFn: () =>
      client.sessions.handoff(session_id, { name, state: summary === "" ? {} : { summary } }, { workspace }),
    onSuccess: ({ id }) => {
      toast.show({ tone: "good", title: `The context of the model begins at entry ${id}.` });
      setName("");
      setSummary("");
    },
    onSettled: () => refreshSessions(queries),
  });
  return (
    <Card title="Start a new context for the model">
      <div className={layout.tight}>
        <TextInput
          label="Name of the handoff"
          placeholder="shipped"
          value={name}
          onChange={({ currentTarget }) => setName(currentTarget.value)}
        />
        <TextInput
          label="Summary"
          description="The model sees it instead of the earlier conversation."
          value={summary}
          onChange={({ currentTarget }) => setSummary(currentTarget.value)}
        />
        {handoff.error !== null && <ErrorView error={handoff.error} />}
        <div>
          <Button
            size="xs"
            variant="default"
            disabled={name === ""}
            loading={handoff.isPending}
            onClick={() => handoff.mutate()}
          >
            Hand off
          </Button>
        </div>
      </div>
    </Card>
  );
}

function Fork({ address: { session_id, workspace } }: { address: SessionAddress }) {
  const { client, queries } = useServices();
  const navigate = useNavigate();
  const [at, setAt] = useState<number | string>("");
  const [child_id, setChildId] = useState("");
  const fork = useMutation({
    mutationFn: () =>
      client.sessions.branch(
        session_id,
        { ...(typeof at === "number" ? { at } : {}), ...(child_id === "" ? {} : { child_id }) },
        { workspace },
      ),
    onSuccess: async (child) => {
      await refreshSessions(queries);
      await navigate({
        to: "/sessions/$id",
        params: { id: child.id },
        search: workspace === "default" ? {} : { workspace },
      });
    },
  });
  return (
    <Card title="Fork">
      <div className={layout.tight}>
        <NumberInput
          label="Last entry of the shared history"
          placeholder="The whole history"
          min={0}
          allowDecimal={false}
          value={at}
          onChange={setAt}
        />
        <TextInput
          label="Id of the new session"
          placeholder="Chosen by the gateway"
          value={child_id}
          onChange={({ currentTarget }) => setChildId(currentTarget.value)}
        />
        {fork.error !== null && <ErrorView error={fork.error} />}
        <div>
          <Button size="xs" variant="default" loading={fork.isPending} onClick={() => fork.mutate()}>
            Fork
          </Button>
        </div>
      </div>
    </Card>
  );
}

function Reset({ address: { session_id, workspace } }: { address: SessionAddress }) {
  const { client, queries } = useServices();
  const toast = useToast();
  /** Whether the tape is announced as an archive; null while no confirmation is open. */
  const [archive, setArchive] = useState<boolean | null>(null);
  const reset = useMutation({
    mutationFn: () => client.sessions.reset(session_id, { workspace }, { archive: archive ?? true }),
    onSuccess: ({ head_chain_id }) =>
      toast.show({ tone: "good", title: `The session continues on chain ${head_chain_id}.` }),
    onError: toast.fail,
    onSettled: () => {
      setArchive(null);
      return refreshSessions(queries);
    },
  });
  return (
    <Card title="Start again">
      <div className={layout.tight}>
        <p className={layout.text}>
          The tape is closed and the session continues with an empty one. Its records are kept.
        </p>
        <div className={layout.row}>
          <Button size="xs" variant="default" onClick={() => setArchive(true)}>
            Archive and reset
          </Button>
          <Button size="xs" variant="default" onClick={() => setArchive(false)}>
            Reset without an archive
          </Button>
        </div>
      </div>
      <Confirm
        opened={archive !== null}
        danger
        title={`Reset ${session_id}?`}
        action="Reset"
        busy={reset.isPending}
        onConfirm={() => reset.mutate()}
        onClose={() => setArchive(null)}
      >
        <p>
          {archive === true
            ? "The tape is archived, and plugins are notified. The model forgets the conversation."
            : "The tape is closed without announcing an archive. The model forgets the conversation."}
        </p>
      </Confirm>
    </Card>
  );
}
