/** Edits a value as a form of its schema or as JSON, and shows the tool as the model sees it. */
import type { Json, JsonObject } from "@backplane/contract";
import { SegmentedControl, Textarea } from "@mantine/core";
import { lazy, Suspense, useEffect, useId, useState } from "react";
import { ListSkeleton } from "../../lists/list-skeleton.tsx";
import { parseJsonText } from "../../text/parse-json-text.ts";
import { JsonView } from "../../values/json-view.tsx";
import styles from "./schema-form.module.css";

const FormView = lazy(() => import("./form-view.tsx"));

export interface SchemaFormProps {
  label: string;
  /** Null if there is no schema: then the value is edited as JSON only. */
  schema: JsonObject | null;
  value: Json;
  onChange: (value: Json) => void;
  disabled?: boolean;
  /** True for settings, in which a name such as `api_key` indicates a secret. */
  named_secrets?: boolean;
  /** The tool as models see it. Without it, the form has no such view. */
  model?: { name: string; description: string; token_cost: number } | undefined;
}

type View = "form" | "json" | "model";

export function SchemaForm(props: SchemaFormProps) {
  const { label, schema, value, onChange, disabled = false, named_secrets = false, model } = props;
  const id = useId();
  const [view, setView] = useState<View>("form");
  if (schema === null)
    return <JsonEditor label={label} value={value} onChange={onChange} disabled={disabled} />;
  const views = [
    { value: "form", label: "Form" },
    { value: "json", label: "JSON" },
    ...(model === undefined ? [] : [{ value: "model", label: "What the model sees" }]),
  ];
  return (
    <div className={styles.editor}>
      <SegmentedControl
        size="xs"
        aria-label={`View of ${label}`}
        data={views}
        value={view}
        onChange={(next) => setView(next as View)}
      />
      {view === "form" && (
        <Suspense fallback={<ListSkeleton />}>
          <FormView {...{ id, schema, value, onChange, disabled, named_secrets }} />
        </Suspense>
      )}
      {view === "json" && <JsonEditor label={label} value={value} onChange={onChange} disabled={disabled} />}
      {view === "model" && model !== undefined && (
        <>
          <p className={styles.cost}>About {model.token_cost} tokens in every request that lists the tool.</p>
          <JsonView
            label="What the model sees"
            value={{ name: model.name, description: model.description, input_schema: schema }}
          />
        </>
      )}
    </div>
  );
}

export interface JsonEditorProps {
  label: string;
  value: Json;
  onChange: (value: Json) => void;
  disabled: boolean;
}

/** The text is kept while it is not valid JSON; the value changes only with valid text. */
export function JsonEditor({ label, value, onChange, disabled }: JsonEditorProps) {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2));
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setText((current) => (sameJson(current, value) ? current : JSON.stringify(value, null, 2)));
  }, [value]);
  const edit = (next: string) => {
    setText(next);
    const parsed = parseJsonText(next);
    setProblem(parsed.problem);
    if (parsed.problem === null) onChange(parsed.value);
  };
  return (
    <Textarea
      aria-label={`${label} as JSON`}
      classNames={{ input: styles.json ?? "" }}
      autosize
      minRows={6}
      maxRows={24}
      spellCheck={false}
      disabled={disabled}
      value={text}
      error={problem}
      onChange={({ currentTarget }) => edit(currentTarget.value)}
    />
  );
}

function sameJson(text: string, value: Json): boolean {
  try {
    return JSON.stringify(JSON.parse(text)) === JSON.stringify(value);
  } catch {
    // Text that is being edited is not replaced.
    return true;
  }
}
