"""The Atari environment itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, ClassVar
from uuid import uuid4

from ale_py import ALEInterface

from envs.atari_env.models import AtariAction, AtariObservation, AtariState
from envs.atari_env.server.games import game_file
from envs.atari_env.server.settings import Settings
from openenv.server.environment import Environment

_SEEDS = 1 << 31


class AtariEnvironment(Environment[AtariAction, AtariObservation, AtariState]):
    """One game in one emulator.

    The emulator holds the interpreter's lock in everything that it does, so that a thread for it would only cost time.

    Args:
        settings: How it is played where a reset does not say otherwise; by default what the variables say.

    Raises:
        ValueError: A setting cannot work.
    """

    blocking: ClassVar[bool] = False

    def __init__(self, settings: Settings | None = None) -> None:
        self._defaults = Settings.from_variables() if settings is None else settings
        self._settings = self._defaults
        self._ale: ALEInterface | None = None
        self._screen: Callable[[], Any]
        self._actions: list[Any] = []
        self._lives = 0
        self.state = AtariState(episode_id=str(uuid4()))
        self._tell_state()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        *,
        game_name: str | None = None,
        obs_type: str | None = None,
        full_action_space: bool | None = None,
        mode: int | None = None,
        difficulty: int | None = None,
        repeat_action_probability: float | None = None,
        frameskip: int | None = None,
        max_frames: int | None = None,
        life_loss: bool | None = None,
    ) -> AtariObservation:
        """Begin an episode. Options that are not given are the server's own settings.

        With a seed, the same seed, settings and actions give the same frames, everywhere. Without one the episode goes
        on with the emulator's own chance.

        Raises:
            ValueError: An option cannot work; the episode before goes on.
        """
        wanted = self._defaults.but(
            game_name=game_name,
            obs_type=obs_type,
            full_action_space=full_action_space,
            mode=mode,
            difficulty=difficulty,
            repeat_action_probability=repeat_action_probability,
            frameskip=frameskip,
            max_frames=max_frames,
            life_loss=life_loss,
        )
        if seed is not None or self._ale is None or wanted != self._settings:
            self._load(wanted, seed)
        else:
            self._ale.reset_game()
        assert self._ale is not None
        self._lives = self._ale.lives()
        self.state = AtariState(episode_id=episode_id or str(uuid4()))
        self._tell_state()
        return self._observe(0.0, {"action_meanings": [action.name for action in self._actions]})

    def step(self, action: AtariAction) -> AtariObservation:
        """Press a button for ``frameskip`` frames. After the end of an episode nothing happens any more.

        Raises:
            ValueError: The action is not legal.
        """
        if self._ale is None:
            self._load(self._defaults, None)
        assert self._ale is not None
        if not 0 <= action.action_id < len(self._actions):
            legal = ", ".join(f"{number} ({button.name})" for number, button in enumerate(self._actions))
            raise ValueError(f"action_id {action.action_id} is not legal in {self._settings.game_name}; {legal} are")
        reward = float(self._ale.act(self._actions[action.action_id]))
        self.state.step_count += 1
        before, self._lives = self._lives, self._ale.lives()
        return self._observe(reward, {"life_lost": self._lives < before} if self._settings.life_loss else {})

    def close(self) -> None:
        """Free the emulator."""
        self._ale = None

    def _load(self, settings: Settings, seed: int | None) -> None:
        # Only loading a game brings back all of the emulator: its random numbers, and the memory, which
        # reset_game leaves as some games find it.
        ale = ALEInterface()
        ale.setInt("random_seed", secrets.randbelow(_SEEDS) if seed is None else seed % _SEEDS)
        ale.setInt("frame_skip", settings.frameskip)
        ale.setFloat("repeat_action_probability", settings.repeat_action_probability)
        ale.setInt("max_num_frames_per_episode", settings.max_frames or 0)
        ale.loadROM(game_file(settings.game_name))
        if settings.mode is not None or settings.difficulty is not None:
            _choose("mode", settings.mode, ale.getAvailableModes(), ale.setMode, settings.game_name)
            _choose(
                "difficulty", settings.difficulty, ale.getAvailableDifficulties(), ale.setDifficulty, settings.game_name
            )
            ale.reset_game()
        self._ale, self._settings = ale, settings
        self._actions = ale.getLegalActionSet() if settings.full_action_space else ale.getMinimalActionSet()
        readers = {"rgb": ale.getScreenRGB, "grayscale": ale.getScreenGrayscale, "ram": ale.getRAM}
        self._screen = readers[settings.obs_type]

    def _observe(self, reward: float, metadata: dict[str, Any]) -> AtariObservation:
        ale = self._ale
        assert ale is not None
        screen = self._screen()
        terminated, truncated = ale.game_over(with_truncation=False), ale.game_truncated()
        return AtariObservation(
            screen=screen,
            screen_shape=list(screen.shape),
            legal_actions=list(range(len(self._actions))),
            lives=self._lives,
            episode_frame_number=ale.getEpisodeFrameNumber(),
            frame_number=ale.getFrameNumber(),
            terminated=terminated,
            truncated=truncated,
            done=terminated or truncated,
            reward=reward,
            metadata=metadata,
        )

    def _tell_state(self) -> None:
        for name in ("game_name", "obs_type", "full_action_space", "mode", "difficulty", "repeat_action_probability"):
            setattr(self.state, name, getattr(self._settings, name))
        self.state.frameskip = self._settings.frameskip


def _choose(name: str, value: int | None, available: list[int], choose: Callable[[int], None], game: str) -> None:
    if value is None:
        return
    if value not in available:
        raise ValueError(f"{game} has no {name} {value}; it has {', '.join(str(known) for known in available)}")
    choose(value)
