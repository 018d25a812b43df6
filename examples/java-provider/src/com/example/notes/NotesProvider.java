package com.example.notes;

import backplane.instruments.Instrument;
import backplane.instruments.InstrumentHealth;
import backplane.instruments.InstrumentMetadata;
import backplane.instruments.InstrumentProvider;
import backplane.instruments.InstrumentResult;
import backplane.instruments.InvocationContext;
import backplane.instruments.PluginContext;
import backplane.instruments.SecurityRule;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.Map;

/** Two instruments: one writes to the plugin's own folder, the other runs slowly and can be cancelled. */
public final class NotesProvider implements InstrumentProvider {
  private PluginContext context;

  @Override
  public void initialize(PluginContext context) {
    this.context = context;
    context.logger().info("notes are in " + context.dataDir());
    System.out.println("output of a plugin is not part of the protocol");
  }

  @Override
  public List<Instrument> instruments() {
    return List.of(new Keep(), new Wait());
  }

  private final class Keep implements Instrument {
    @Override
    public String name() {
      return "note_keep";
    }

    @Override
    public RiskLevel riskLevel() {
      return RiskLevel.LocalWrite;
    }

    @Override
    public InstrumentMetadata metadata() {
      return new InstrumentMetadata(name(), InstrumentMetadata.Category.Application, "Keeps a line in the notes.")
          .accessMode(InstrumentMetadata.AccessMode.Exclusive)
          .inputSchema(
              Map.of(
                  "type", "object",
                  "properties", Map.of("text", Map.of("type", "string")),
                  "required", List.of("text")))
          .sideEffects("writes files")
          .defaultTimeoutMs(5_000)
          .maxTimeoutMs(10_000)
          .keywords("note", "remember");
    }

    @Override
    public List<SecurityRule> securityRules() {
      return List.of(SecurityRule.deny("passwords must not be stored in notes").where("/text", "(?i)password"));
    }

    @Override
    public InstrumentResult invoke(Map<String, Object> params, InvocationContext call) throws Exception {
      Path notes = context.dataDir().resolve("notes.txt");
      String text = (String) params.get("text");
      if (text.isBlank()) return InstrumentResult.error("EMPTY_NOTE", "The text is empty");
      Files.writeString(notes, text + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
      String signature = context.config().getOrDefault("signature", "");
      return InstrumentResult.data(Map.of("notes", Files.readAllLines(notes).size(), "signature", signature));
    }

    @Override
    public InstrumentHealth healthCheck() {
      return Files.isWritable(context.dataDir())
          ? InstrumentHealth.healthy()
          : InstrumentHealth.unhealthy("the data folder is not writable");
    }
  }

  private final class Wait implements Instrument {
    @Override
    public String name() {
      return "wait_a_while";
    }

    @Override
    public RiskLevel riskLevel() {
      return RiskLevel.ReadOnly;
    }

    @Override
    public InstrumentMetadata metadata() {
      return new InstrumentMetadata(name(), InstrumentMetadata.Category.System, "Waits; ends early when it is cancelled.");
    }

    @Override
    public InstrumentResult invoke(Map<String, Object> params, InvocationContext call) throws Exception {
      long ms = params.get("ms") instanceof Number number ? number.longValue() : 60_000;
      try {
        Thread.sleep(ms);
      } catch (InterruptedException e) {
        return InstrumentResult.stdio("stopped, cancelled: " + call.isCancelled(), "");
      }
      if (params.containsKey("ask")) return InstrumentResult.data(context.requestCognition("How long?", 10));
      if (params.containsKey("fail")) throw new IllegalStateException("told to fail");
      return InstrumentResult.stdio("waited " + ms + " ms", "");
    }
  }
}
