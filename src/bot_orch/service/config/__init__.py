"""Configuration: typed settings, read from strict, versioned YAML.

An unknown key is an error that names the nearest valid one; ``${NAME}`` stands for an environment variable, which must
be set; secrets in plain text are refused.
"""

from bot_orch.service.config.settings import (  # first: it names the extra that may be missing
    ALARMS,
    SCOPES,
    AgentConfig,
    AlignmentConfig,
    AuditConfig,
    BesideConfig,
    BudgetConfig,
    CacheConfig,
    ClusterConfig,
    Config,
    GuardrailConfig,
    HealthConfig,
    JudgeConfig,
    LimitsConfig,
    ListenConfig,
    MemoryConfig,
    QueueConfig,
    ReferenceConfig,
    RetentionConfig,
    RouterConfig,
    RouterPartConfig,
    RuleConfig,
    SubjectToConfig,
    TenantConfig,
    TokenConfig,
    TokenLimitsConfig,
    TracesConfig,
    WatchConfig,
    WebhookConfig,
)

from bot_orch.service.config.checks import taken_by_others  # isort: skip
from bot_orch.service.config.reading import check_keys  # isort: skip
from bot_orch.service.config.reading import load_config, parse_config  # isort: skip

__all__ = [
    "ALARMS",
    "SCOPES",
    "AgentConfig",
    "AlignmentConfig",
    "AuditConfig",
    "BesideConfig",
    "BudgetConfig",
    "CacheConfig",
    "ClusterConfig",
    "Config",
    "GuardrailConfig",
    "HealthConfig",
    "JudgeConfig",
    "LimitsConfig",
    "ListenConfig",
    "MemoryConfig",
    "QueueConfig",
    "ReferenceConfig",
    "RetentionConfig",
    "RouterConfig",
    "RouterPartConfig",
    "RuleConfig",
    "SubjectToConfig",
    "TenantConfig",
    "TokenConfig",
    "TokenLimitsConfig",
    "TracesConfig",
    "WatchConfig",
    "WebhookConfig",
    "check_keys",
    "load_config",
    "parse_config",
    "taken_by_others",
]
