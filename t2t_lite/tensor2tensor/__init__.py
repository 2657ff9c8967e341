"""What tensor2tensor left: its hparams, checkpoints and vocabularies, for `t2t-import`."""
