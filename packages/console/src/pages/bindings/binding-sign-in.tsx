/** Signs the gateway in to the remote server of a binding. */
import type { Binding, SignInBegin, SignInStarted } from "@backplane/contract";
import { Button, Checkbox, PasswordInput, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { bindingQueries } from "../../api/bindings.ts";
import { useServices } from "../../api/services.ts";
import { useToast } from "../../parts/actions/toast.tsx";
import { Card } from "../../parts/layout/card.tsx";
import { Fields } from "../../parts/layout/fields.tsx";
import { Icon } from "../../parts/layout/icon.tsx";
import { ErrorView } from "../../parts/notices/error-view.tsx";
import layout from "../../parts/styles/layout.module.css";
import { Badge } from "../../parts/values/badge.tsx";
import { Time } from "../../parts/values/time.tsx";

export function BindingSignIn({ binding: { binding_id } }: { binding: Binding }) {
  const { client, queries } = useServices();
  const toast = useToast();
  const query = useQuery(bindingQueries.signIn(client, binding_id));
  const [started, setStarted] = useState<SignInStarted | null>(null);
  const refresh = () => queries.invalidateQueries({ queryKey: ["bindings"] });
  const login = useMutation({
    mutationFn: (options: SignInBegin) => client.bindings.login(binding_id, options),
    onSuccess: setStarted,
    onSettled: refresh,
  });
  const logout = useMutation({
    mutationFn: () => client.bindings.logout(binding_id),
    onSuccess: () => toast.show({ tone: "good", title: "Signed out." }),
    onError: toast.fail,
    onSettled: refresh,
  });
  if (query.data === undefined) return null;
  const { status, reason, issuer, scope, signed_in_by, signed_in_at, expires_at } = query.data;
  const pending = started?.status === "pending" && status !== "signed_in";
  return (
    <Card
      title="Sign-in to the server"
      actions={
        status === "signed_in" ? (
          <Button size="xs" variant="default" loading={logout.isPending} onClick={() => logout.mutate()}>
            Sign out of the server
          </Button>
        ) : undefined
      }
    >
      <div className={layout.stack}>
        <Fields
          items={[
            [
              "State",
              <Badge
                key="state"
                tone={status === "signed_in" ? "good" : status === "needed" ? "warn" : "quiet"}
                icon={status === "signed_in" ? "check" : "secret"}
              >
                {status === "signed_in" ? "Signed in" : status === "needed" ? "Sign-in needed" : "Signed out"}
              </Badge>,
            ],
            ["Why", reason],
            ["Issuer", issuer],
            ["Scope", scope],
            ["Signed in by", signed_in_by],
            ["Since", signed_in_at === null ? null : <Time key="since" at={signed_in_at} />],
            ["Token expires", expires_at === null ? null : <Time key="expires" at={expires_at} />],
          ]}
        />
        {status !== "signed_in" && !pending && (
          <SignInForm busy={login.isPending} onStart={(options) => login.mutate(options)} />
        )}
        {login.error !== null && <ErrorView error={login.error} />}
        {pending && <SignInSteps started={started} onDone={() => void refresh()} />}
      </div>
    </Card>
  );
}

function SignInForm({ busy, onStart }: { busy: boolean; onStart: (options: SignInBegin) => void }) {
  const [client_id, setClientId] = useState("");
  const [client_secret, setClientSecret] = useState("");
  const [private_key, setPrivateKey] = useState("");
  const [scope, setScope] = useState("");
  const [as_client, setAsClient] = useState(false);
  const start = () =>
    onStart({
      ...(client_id === "" ? {} : { client_id }),
      ...(client_secret === "" ? {} : { client_secret }),
      ...(private_key === "" ? {} : { private_key }),
      ...(scope === "" ? {} : { scope }),
      ...(as_client ? { grant: "client_credentials" } : {}),
    });
  return (
    <div className={layout.form}>
      <details>
        <summary>Use a client that is already registered</summary>
        <div className={layout.columns}>
          <TextInput
            label="Client id"
            value={client_id}
            onChange={({ currentTarget }) => setClientId(currentTarget.value)}
          />
          <PasswordInput
            label="Client secret"
            autoComplete="off"
            value={client_secret}
            onChange={({ currentTarget }) => setClientSecret(currentTarget.value)}
            visibilityToggleButtonProps={{ "aria-label": "Show what you type" }}
          />
          <TextInput
            label="Scope"
            placeholder="As the server requests"
            value={scope}
            onChange={({ currentTarget }) => setScope(currentTarget.value)}
          />
        </div>
        <Textarea
          mt="sm"
          label="Private key of the client"
          description="PKCS#8 in PEM, instead of a secret."
          autosize
          minRows={2}
          maxRows={8}
          spellCheck={false}
          autoComplete="off"
          value={private_key}
          onChange={({ currentTarget }) => setPrivateKey(currentTarget.value)}
        />
        <Checkbox
          mt="sm"
          label="Sign in as the client itself, without a person"
          checked={as_client}
          onChange={({ currentTarget }) => setAsClient(currentTarget.checked)}
        />
      </details>
      <div className={layout.row}>
        <Button loading={busy} onClick={start}>
          Sign in
        </Button>
      </div>
    </div>
  );
}

/** The sign-in happens in another tab. If the tab cannot return to the gateway, the person pastes its last URL here. */
function SignInSteps({ started, onDone }: { started: SignInStarted; onDone: () => void }) {
  const { client } = useServices();
  const [redirect, setRedirect] = useState("");
  const complete = useMutation({
    mutationFn: () => client.bindings.completeLogin(redirect),
    onSettled: onDone,
  });
  return (
    <div className={layout.form}>
      {started.start_url !== null && (
        <div className={layout.row}>
          <Button
            component="a"
            href={started.start_url}
            target="_blank"
            rel="noreferrer"
            rightSection={<Icon name="external" size={14} />}
          >
            Open the sign-in page
          </Button>
          <span className={layout.dimmed}>This page updates when you are done.</span>
        </div>
      )}
      <details>
        <summary>The browser cannot return to the gateway</summary>
        <div className={layout.tight}>
          {started.authorization_url !== null && (
            <a href={started.authorization_url} target="_blank" rel="noreferrer">
              Open the authorization server instead
            </a>
          )}
          <TextInput
            label="URL of the page that the browser could not open"
            value={redirect}
            onChange={({ currentTarget }) => setRedirect(currentTarget.value)}
          />
          <div>
            <Button
              size="xs"
              disabled={redirect === ""}
              loading={complete.isPending}
              onClick={() => complete.mutate()}
            >
              Complete
            </Button>
          </div>
          {complete.error !== null && <ErrorView error={complete.error} />}
        </div>
      </details>
    </div>
  );
}
